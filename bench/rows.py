"""All rows of the benchmark that one command can measure on any server."""

from bench.gateway_workloads import GATEWAY_WORKLOADS
from bench.group_workloads import GROUP_WORKLOADS
from bench.over_own import BESIDE_WORKLOADS
from bench.production import PRODUCTION_WORKLOADS
from bench.session_workloads import SESSION_WORKLOADS
from bench.waiters import WAITER_WORKLOADS
from bench.workloads import WORKLOADS, Workload

ALL: tuple[Workload, ...] = (
    *WORKLOADS,
    *PRODUCTION_WORKLOADS,
    *WAITER_WORKLOADS,
    *GROUP_WORKLOADS,
    *SESSION_WORKLOADS,
    *GATEWAY_WORKLOADS,
    *BESIDE_WORKLOADS,
)

"""The columns by which the tables of the pages can be sorted."""

from streamd.clients.ui.ordering import Columns
from streamd.clients.ui.overview import StreamGroup

# Groups on the overview, and rows of a table of all groups.
GROUPS_ON_OVERVIEW = 10
ROWS_MAX = 200


def _id_order(entry_id: bytes) -> tuple[int, int]:
    ms, _, sequence = entry_id.partition(b"-")
    return int(ms), int(sequence or 0)


STREAMS: Columns = {
    "name": lambda one: one.key,
    "length": lambda one: one.length,
    "rate": lambda one: one.rate,
    "memory": lambda one: one.memory_bytes,
    "groups": lambda one: one.groups,
    "last": lambda one: _id_order(one.last_id),
}
PRODUCERS: Columns = {
    "name": lambda one: one.key,
    "window": lambda one: one.fact("idmp-duration"),
    "maxsize": lambda one: one.fact("idmp-maxsize"),
    "producers": lambda one: one.fact("pids-tracked"),
    "remembered": lambda one: one.fact("iids-tracked"),
    "ever": lambda one: one.fact("iids-added"),
    "duplicates": lambda one: one.fact("iids-duplicates"),
}


GROUPS: Columns = {
    "name": lambda one: one.name,
    "lag": lambda one: one.lag,
    "pending": lambda one: one.pending,
    "consumers": lambda one: one.consumers,
    "last": lambda one: _id_order(one.last_delivered_id),
}


def by_lag(one: StreamGroup) -> tuple[int, int, bytes, bytes]:
    """Return where a group comes in a list: the furthest behind first, then the one with most pending entries."""
    return -(one.group.lag or 0), -one.group.pending, one.stream, one.group.name


ALL_GROUPS: Columns = {
    "name": lambda one: one.group.name,
    "stream": lambda one: one.stream,
    "lag": lambda one: one.group.lag,
    "pending": lambda one: one.group.pending,
    "consumers": lambda one: one.group.consumers,
}


CONSUMERS: Columns = {
    "name": lambda one: one.name,
    "pending": lambda one: one.pending,
    "idle": lambda one: one.idle_ms,
    "inactive": lambda one: one.inactive_ms,
}


SLOW_LOG: Columns = {"time": lambda one: one.unix_s, "took": lambda one: one.took_us}

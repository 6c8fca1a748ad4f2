"""examples/failover_producer.py behind real Sentinels, while the primary's machine is destroyed."""

import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.failover.machines import three_machines
from tests.replication.clusters import wait_until

pytestmark = pytest.mark.redis
EXAMPLE = Path(__file__).parents[2] / "examples" / "failover_producer.py"
ORDERS = 300


def test_the_example_stores_each_order_once_and_in_order(newest_redis: Path, tmp_path: Path):
    with three_machines(newest_redis, tmp_path) as machines:
        lost = machines.named()
        assert lost is not None
        words = [word for port in machines.ports for word in ("--sentinel", f"127.0.0.1:{port}")]
        words += ["--orders", str(ORDERS), "--pause-ms", "5"]
        example = subprocess.Popen([sys.executable, str(EXAMPLE), *words], stdout=subprocess.PIPE, text=True)
        try:
            wait_until(lambda: lost.node.client.xlen("orders") >= ORDERS // 3, "a third is stored")
            lost.destroy(directory_first=True)
            chosen, _ = machines.wait_for_another(lost)
            lost.start(chosen)
            said, _ = example.communicate(timeout=60)
        finally:
            example.kill()
            example.wait()
        assert example.returncode == 0, said
        assert f"orders {ORDERS}, sent " in said
        assert f"orders {ORDERS}, sent {ORDERS} times" not in said, "nothing was sent again"
        assert said.endswith("each on 2 replicas\nlost 0, there twice 0, in order\n")
        with redis.Redis(port=chosen.node.port) as client:
            assert client.xlen("orders") == ORDERS

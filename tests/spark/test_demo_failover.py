"""`make demo-failover` as a newcomer meets it: to its end, interrupted, and without a Sentinel."""

import re
import signal
import sys
from pathlib import Path

import pytest

from demo import failover
from tests.spark.test_demo import left_over, start

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_the_demo_loses_a_machine_and_nothing_else(newest_redis: Path, tmp_path: Path):
    demo = start(tmp_path, "--redis-server", str(newest_redis), module="demo.failover")
    output, _ = demo.communicate(timeout=270)  # it gives up by itself at 240
    assert demo.returncode == 0, output
    for said in (
        r"destroyed server one: killed \(kill -9\), its directory removed",
        r"after \d+\.\d s server (two|three) is the primary",
        r"Sentinel has made server one a replica; it has all data again",
        r"orders 1500, sent \d+ times, each on 2 replicas; lost 0, there twice 0, in order",
        r"^orders: 1,500 expected, 1,500 found$",
        r"^invoices: 1,500 expected, 1,500 found$",
        r"^lost 0, duplicated 0$",
    ):
        assert re.search(said, output, re.MULTILINE), output
    assert left_over(tmp_path) == []
    assert list(tmp_path.glob("streamd-*")) == []


def test_ctrl_c_ends_servers_and_sentinels(newest_redis: Path, tmp_path: Path):
    demo = start(tmp_path, "--redis-server", str(newest_redis), module="demo.failover")
    try:
        assert demo.stdout is not None
        assert any("three Sentinels watch them" in line for line in demo.stdout)
        demo.send_signal(signal.SIGINT)
        output, _ = demo.communicate(timeout=60)
    finally:
        demo.kill()
        demo.communicate()
    assert demo.returncode == 130, output
    assert "Traceback" not in output
    assert left_over(tmp_path) == []


def test_without_a_redis_server_one_line_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo.failover", "--redis-server", "no-such-program"])
    assert failover.main() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == failover.NO_SENTINEL + "\n"

"""A message from end to end, with few devices: from a device to backend and Spark, and back as a command."""

from collections import Counter

import pytest

from tests.mqtt.chaos.checker import FOREIGN, LOST, REORDERED
from tests.mqtt.chaos.records import Message


@pytest.mark.long
@pytest.mark.spark
def test_each_reading_reaches_backend_and_spark_and_is_answered_once_while_all_are_killed(tmp_path):
    from tests.mqtt.chaos.whole.__main__ import run
    from tests.mqtt.chaos.whole.run import Whole
    from tests.spark.commands.run import Plan

    plan = Plan((), devices=500, rate=50, per_batch=500)
    outcome = run(Whole(plan, tmp_path, lambda line: print(line, flush=True), 20, 4))
    assert outcome.is_good, (outcome.findings[:5], outcome.faults[:5], outcome.counts)
    assert outcome.counts["delivered"] == outcome.counts["commands"] == outcome.counts["readings"] > 100
    assert outcome.counts["sent again"] > 0


def message(number):
    return Message(f"d/{number}", "d", "chaos/1/d/a", number, 1, True, 1, True)


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        (["d/1", "d/2"], []),
        (["d/1", "d/2", "d/1"], []),
        (["d/1"], [(LOST, "d/2")]),
        (["d/2", "d/1"], [(REORDERED, "d/1")]),
        (["d/1", "d/2", "d/3"], [(FOREIGN, "d/3")]),
    ],
)
def test_the_checker_sees_what_a_backend_has_missed_and_what_is_nobodys(seen, found):
    pytest.importorskip("pyspark")
    from tests.mqtt.chaos.whole.run import check_backend

    messages = {one.key: one for one in (message(1), message(2))}
    assert [(one.kind, one.key) for one in check_backend(messages, Counter(["d/1", "d/2"]), seen)] == found

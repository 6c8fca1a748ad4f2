"""A command that Spark writes for a device reaches it exactly once, from the row to PUBREC, through kills of all."""

import asyncio
from pathlib import Path

import pytest

from tests.mqtt.chaos import faulty_proxy as proxies
from tests.mqtt.chaos.checker import DUPLICATED, FOREIGN, LOG, LOST
from tests.mqtt.chaos.records import Delivery, Message, Received, Stored
from tests.spark.commands.check import check_commands
from tests.spark.commands.run import DRIVER, EXECUTOR, GATEWAY, SERVER, WORKER, Outcome, Plan, Run

pytestmark = pytest.mark.spark


def outcome_of(plan: Plan, directory: Path) -> Outcome:
    return asyncio.run(Run(plan, directory, lambda line: print(line, flush=True)).run())


@pytest.mark.long
def test_each_command_comes_once_while_driver_worker_gateway_and_server_are_killed(tmp_path: Path) -> None:
    """An executor of a local Spark is its driver; a Python worker does its work."""
    outcome = outcome_of(Plan((GATEWAY, WORKER, SERVER, DRIVER)), tmp_path)
    assert outcome.is_good, (outcome.findings[:5], outcome.faults[:5], outcome.counts)
    assert all(outcome.counts[one] == 1 for one in (GATEWAY, WORKER, SERVER, DRIVER))
    assert outcome.counts["commands"] == outcome.counts["readings"] > 0
    assert outcome.recognised >= outcome.counts["commits taken back"], "no row was written twice: nothing was shown"


@pytest.mark.rare
def test_each_command_comes_once_while_executors_of_a_cluster_are_killed_too(tmp_path: Path) -> None:
    kills = (EXECUTOR, GATEWAY, WORKER, SERVER, DRIVER)
    plan = Plan((*kills, *reversed(kills), SERVER, GATEWAY, DRIVER), devices=12, is_cluster=True, seconds_max=900)
    outcome = outcome_of(plan, tmp_path)
    assert outcome.is_good, (outcome.findings[:5], outcome.faults[:5], outcome.counts)
    assert all(outcome.counts[one] >= 2 for one in kills)
    assert outcome.counts["commands"] == outcome.counts["readings"] > 0
    assert outcome.recognised > 0, "no row was written twice: nothing was shown"


@pytest.mark.rare
def test_rows_without_names_are_found_as_commands_that_come_twice(tmp_path: Path) -> None:
    outcome = outcome_of(Plan((DRIVER, DRIVER), exactly_once="none"), tmp_path)
    assert outcome.counts["commits taken back"] > 0
    assert {(one.kind, one.where) for one in outcome.findings} == {(DUPLICATED, LOG)}
    assert outcome.faults == []


@pytest.mark.rare
def test_deliveries_that_a_proxy_doubles_are_found(tmp_path: Path) -> None:
    outcome = outcome_of(Plan((), plant=proxies.DOUBLE_OUT), tmp_path)
    assert outcome.planted > 0
    assert {one.kind for one in outcome.findings} == {DUPLICATED}
    assert LOG not in {one.where for one in outcome.findings}


READING = Message("d1/1", "d1", "chaos/0/d1/a", 1, 1, is_once=True, is_acknowledged=True)
STORED = Stored("d1/1", "chaos/0/d1/a", "d1", "g1/0/1-0")
COMMAND = Stored("d1/1", "commands/d1", None, "g2/0/1-0")
DELIVERY = Delivery("d1/1", "commands/d1", 1, 2, False)


@pytest.mark.parametrize(
    ("log", "deliveries", "found"),
    [
        ([STORED, COMMAND], [DELIVERY], []),
        ([STORED, COMMAND], [], [(LOST, "d1")]),
        ([STORED, COMMAND], [DELIVERY, DELIVERY], [(DUPLICATED, "d1")]),
        ([STORED, COMMAND], [DELIVERY._replace(topic="commands/d2")], [(FOREIGN, "d1"), (LOST, "d1")]),
        ([STORED, COMMAND], [DELIVERY._replace(qos=1)], [(FOREIGN, "d1")]),
        ([STORED, COMMAND], [DELIVERY, DELIVERY._replace(key="d1/2")], [(FOREIGN, "d1")]),
        ([STORED], [], [(LOST, LOG)]),
        ([STORED, COMMAND, COMMAND], [DELIVERY, DELIVERY], [(DUPLICATED, LOG)]),
        ([STORED, COMMAND, COMMAND], [DELIVERY], [(DUPLICATED, LOG), (LOST, "d1")]),
        ([STORED, COMMAND._replace(topic="commands/d2")], [], [(FOREIGN, LOG), (LOST, LOG)]),
        ([], [], [(LOST, LOG)]),
        ([STORED, STORED, COMMAND, COMMAND], [DELIVERY, DELIVERY], [(DUPLICATED, LOG)]),
        ([STORED, COMMAND, STORED._replace(key="d1/9")], [DELIVERY], [(FOREIGN, LOG)]),
    ],
)
def test_the_checker_sees_what_is_lost_doubled_and_nobodys(
    log: list[Stored], deliveries: list[Delivery], found: list[tuple[str, str]]
) -> None:
    received = Received("d1", "commands/d1", 2, members={"d1": deliveries})
    findings = check_commands({READING.key: READING}, log, [received])
    assert sorted((one.kind, one.where) for one in findings) == sorted(found)

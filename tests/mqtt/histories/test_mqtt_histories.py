"""Random histories come to what the model says, on mosquitto and on the gateway, and a planted fault is found."""

import asyncio
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.mqtt.chaos import faulty_proxy as proxies
from tests.mqtt.chaos.processes import MOSQUITTO
from tests.mqtt.histories import __main__ as command
from tests.mqtt.histories.brokers import Broker
from tests.mqtt.histories.generator import history
from tests.mqtt.histories.steps import parse, to_text

RECORDED = Path(__file__).parent / "recorded"
needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")


@contextmanager
def broker(kind, directory):
    found = Broker(kind, directory)
    try:
        found.start()
        yield found
    finally:
        found.stop()


def play(found, seeds, **options):
    histories = [history(seed, **options) for seed in seeds]
    played = asyncio.run(found.play_all(histories))
    wrong = ["\n".join(one.lines) for one in played if one.faults]
    assert wrong == [], "\n\n".join(wrong[:2])
    assert sum(line.startswith("    ") for one in played for line in one.lines) > 2 * len(histories)


@needs_mosquitto
@pytest.mark.long
def test_random_histories_on_mosquitto(tmp_path):
    with broker("mosquitto", tmp_path) as found:
        play(found, range(60))


@pytest.mark.parametrize("store", ["streamd", "redis"])
def test_random_histories_on_the_gateway(tmp_path, store, newest_redis):
    with broker(store, tmp_path) as found:
        play(found, range(60))


@pytest.mark.long
@pytest.mark.parametrize("store", ["streamd", "redis"])
def test_random_histories_in_which_the_gateway_is_killed(tmp_path, store, newest_redis):
    with broker(store, tmp_path) as found:
        play(found, range(1_000, 1_015), may_kill=True, timed_share=0.0)


@pytest.mark.parametrize("store", ["streamd", "redis"])
def test_histories_that_once_showed_a_fault(tmp_path, store, newest_redis):
    with broker(store, tmp_path) as found:
        for path in sorted(RECORDED.glob("*.txt")):
            assert asyncio.run(found.play(parse(path.read_text()))).faults == [], path.name


def test_a_history_is_the_same_after_it_was_written_and_read():
    for seed in range(50):
        steps = history(seed, may_kill=True)
        assert parse(to_text(steps)) == steps


@pytest.mark.parametrize("line", ["jump a", "publish a colour=red", "cut", "kill a", "hold a what"])
def test_a_line_that_is_no_step_is_refused(line):
    with pytest.raises(ValueError, match="no such step"):
        parse(line)


@needs_mosquitto
@pytest.mark.parametrize(
    ("fault", "text"),
    [(proxies.DROP_OUT, "lost"), (proxies.DOUBLE_OUT, "duplicated"), (proxies.DROP_IN, "lost")],
)
def test_a_planted_fault_is_found(tmp_path, fault, text):
    steps = parse(
        """
        connect a
        connect b version=4
        publish a topic=y qos=1
        subscribe b filter=x/# qos=1
        publish a topic=x qos=1 count=2
        publish b topic=x/y qos=1
        unsubscribe b filter=y
        publish a topic=x qos=1
        """
    )

    async def run(found):
        proxy = proxies.FaultyProxy(found.address, fault, 3, "h1-witness")
        await proxy.start()
        found.address, found.patience_s = ("127.0.0.1", proxy.port), 1.0
        return await found.play(steps)

    with broker("mosquitto", tmp_path) as found:
        played = asyncio.run(run(found))
    assert played.faults
    assert text in played.faults[0]


@needs_mosquitto
def test_a_recorded_history_is_replayed(tmp_path, monkeypatch, capsys):
    path = tmp_path / "recorded.txt"
    path.write_text("connect a\nsubscribe a filter=+ qos=1\npublish a topic=x qos=2\n\n# what happened:\n# nothing\n")
    monkeypatch.setattr(sys, "argv", ["histories", "replay", str(path), "--broker", "mosquitto"])
    assert command.main() == 0
    said = capsys.readouterr().out
    assert "a <- x '1' QoS 1 packet 1" in said
    assert said.endswith("as the model says\n")

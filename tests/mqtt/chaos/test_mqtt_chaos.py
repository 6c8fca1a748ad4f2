"""Chaos in its short forms: on both stores, with several gateways, and on mosquitto, where planted faults are found."""

import pytest

from tests.mqtt.chaos import faulty_proxy as proxies
from tests.mqtt.chaos.__main__ import run
from tests.mqtt.chaos.checker import DUPLICATED, LOST, REORDERED
from tests.mqtt.chaos.processes import MOSQUITTO
from tests.mqtt.chaos.run import Chaos, Options

needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed")


def of_mosquitto(seconds, plant=None):
    return Options(seconds, devices=90, rate=180, broker="mosquitto", plant=plant, quiet_s=2.0)


def is_right(outcome, gateways):
    """Fail with what was found; return how often gateways were killed, stopped for a while, or told to end."""
    assert outcome.is_good, (str(outcome), outcome.findings[:3], outcome.faults[:3], outcome.histories)
    names = [f"gateway-{number}" for number in range(1, gateways + 1)] if gateways > 1 else ["gateway"]
    return sum(
        outcome.counts.get(f"{what} of {name}", 0) for name in names for what in ("kills", "freezes", "orderly stops")
    )


def test_clients_hop_between_gateways_that_are_killed_and_nothing_is_lost_duplicated_or_reordered(tmp_path):
    options = Options(6, devices=40, rate=60, gateways=2, only_kill="gateway", kill_s=1.5, seed=3)
    outcome = run(Chaos(options, tmp_path))
    assert is_right(outcome, 2) > 0
    assert outcome.counts["hops of devices"] > 5
    assert outcome.counts["acknowledged"] > 100


@pytest.mark.long
def test_nothing_is_lost_duplicated_or_reordered_while_everything_breaks(tmp_path):
    """With one gateway; `make mqtt-chaos` has two."""
    outcome = run(Chaos(Options(20, devices=100, rate=100, gateways=1), tmp_path))
    assert is_right(outcome, 1) > 0
    assert outcome.counts["kills of streamd"] > 0
    assert outcome.counts["acknowledged"] > 500


@pytest.mark.long
@needs_mosquitto
def test_nothing_is_found_at_a_broker_that_is_right(tmp_path):
    outcome = run(Chaos(of_mosquitto(5), tmp_path))
    assert outcome.is_good, (str(outcome), outcome.findings[:3], outcome.faults[:3], outcome.histories)
    assert outcome.counts["sent again"] > 0


# What a planted fault shows as; a message that is withheld when the connection breaks is lost.
SHOWN = {
    proxies.DROP_IN: {LOST},
    proxies.DOUBLE_IN: {DUPLICATED},
    proxies.DROP_OUT: {LOST},
    proxies.DOUBLE_OUT: {DUPLICATED},
    proxies.SWAP_OUT: {REORDERED},
}


@pytest.mark.long
@needs_mosquitto
@pytest.mark.parametrize("fault", SHOWN)
def test_a_planted_fault_is_found_with_the_history_of_its_message(tmp_path, fault):
    outcome = run(Chaos(of_mosquitto(3, fault), tmp_path))
    assert outcome.planted > 0
    assert {one.kind for one in outcome.findings} >= SHOWN[fault]
    assert {one.kind for one in outcome.findings} <= SHOWN[fault] | {LOST}
    assert any("PUBLISH" in line for lines in outcome.histories.values() for line in lines)

"""Each statement of MQTT 3.1.1 and 5.0 about servers on a running broker, packet by packet."""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.mqtt.conformance import chapters  # noqa: F401  (enters the cases)
from tests.mqtt.conformance.brokers import BROKERS, Broker, limited_gateway, running_gateway
from tests.mqtt.conformance.cases import CASES, Case, Scene
from tests.mqtt.conformance.deviations import OF_MOSQUITTO
from tests.mqtt.conformance.device import Deviation
from tests.mqtt.conformance.ids import IDS
from tests.mqtt.conformance.untested import BY_EVERY_PACKET, WITHOUT_A_TEST

THREADS_MAX = 80  # each waits nearly all of the time


DEADLINE_S = 60  # for an answer that has to come; a broker that is well needs a thousandth of it
DEADLINE_OF_A_DEVIATION_S = 1.0


def run(case: Case, broker: Broker) -> None:
    """Run a case; the connections are closed at its end. Raises: Deviation."""
    deviates = is_expected_to_deviate(case, broker)
    scene = Scene(broker, case.version, DEADLINE_OF_A_DEVIATION_S if deviates else DEADLINE_S)
    try:
        case.run(scene)
    finally:
        scene.closes_all()


def is_expected_to_deviate(case: Case, broker: Broker) -> bool:
    return broker.name == "mosquitto" and case.name in OF_MOSQUITTO.get(case.version, {})


class Running:
    """A broker, and the cases that wait for time to pass, which all run beside the others."""

    def __init__(self, broker: Broker, beside: list[Case], threads: ThreadPoolExecutor) -> None:
        self.broker = broker
        self._results: dict[Case, Future[None]] = {one: threads.submit(run, one, broker) for one in beside}

    def result(self, case: Case) -> None:
        """Run a case, or wait for its end where it runs already. Raises: Deviation."""
        if case in self._results:
            self._results[case].result(60)
        else:
            run(case, self.broker)


@contextmanager
def running_cases(request, name, start, directory):
    """Start a broker, and the chosen cases that take time on it."""
    calls = (getattr(item, "callspec", None) for item in request.session.items)
    chosen = [one.params["case"] for one in calls if one is not None and one.params.get(request.fixturename) == name]
    with start(directory) as broker, ThreadPoolExecutor(THREADS_MAX) as threads:
        beside = [one for one in chosen if one.takes_seconds or is_expected_to_deviate(one, broker)]
        try:
            yield Running(broker, beside, threads)
        finally:
            threads.shutdown(cancel_futures=True)


def ids_of(cases):
    return [f"{one.version}-{one.name}" for one in cases]


@pytest.fixture(scope="module", params=["gateway", pytest.param("mosquitto", marks=pytest.mark.long)])
def running(request, tmp_path_factory):
    """Each broker in turn."""
    name = request.param
    with running_cases(request, name, BROKERS[name], tmp_path_factory.mktemp(name)) as cases:
        yield cases


@pytest.fixture(scope="module", params=["limited"])
def running_limited(request, tmp_path_factory):
    """A gateway with small limits."""
    with running_cases(request, request.param, limited_gateway, tmp_path_factory.mktemp("limited")) as cases:
        yield cases


WHOLE = [one for one in CASES if not one.limited]
LIMITED = [one for one in CASES if one.limited]


@pytest.mark.parametrize("case", WHOLE, ids=ids_of(WHOLE))
def test_a_broker_does_as_the_standard_says(running, case):
    if is_expected_to_deviate(case, running.broker):
        with pytest.raises(Deviation):
            running.result(case)
    else:
        running.result(case)


@pytest.mark.parametrize("case", LIMITED, ids=ids_of(LIMITED))
def test_a_gateway_holds_its_clients_to_the_limits_that_it_tells(running_limited, case):
    running_limited.result(case)


def test_an_orderly_stop_is_told(tmp_path):
    with running_gateway(tmp_path, {}, "--dir", str(tmp_path / "own")) as (process, broker):
        new, old = (Scene(broker, version, DEADLINE_S).client() for version in (5, 4))
        process.terminate()
        assert new.is_closed(0x8B) == 0x8B
        old.is_closed()
        assert process.wait(DEADLINE_S) == 0


def test_every_deviation_of_mosquitto_is_that_of_a_case():
    listed = {(version, name) for version, names in OF_MOSQUITTO.items() for name in names}
    assert listed - {(one.version, one.name) for one in CASES} == set()


def test_no_two_cases_have_the_same_name():
    assert len({(one.version, one.name) for one in CASES}) == len(CASES)


def test_every_statement_has_a_case_or_a_reason():
    shown = {statement for one in CASES for statement in one.statements}
    assert set(IDS) - shown - set(BY_EVERY_PACKET) - set(WITHOUT_A_TEST) == set()
    assert shown & set(WITHOUT_A_TEST) == set()
    numbered = {one for one in shown | set(BY_EVERY_PACKET) | set(WITHOUT_A_TEST) if "§" not in one}
    assert numbered - set(IDS) == set()

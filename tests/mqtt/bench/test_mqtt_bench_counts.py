"""What the load generator counts, on a broker whose faults are known."""

from time import monotonic

import pytest

from streamd.clients.mqtt.bench.latencies import Latencies
from streamd.clients.mqtt.bench.ledger import Arrival, Ledger
from streamd.clients.mqtt.codec import packets
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.bench.fake_broker import Fake, running
from tests.mqtt.bench.running_bench import SHORT, bench, figures

KINDS = ("p2p", "in", "out")


def run(capsys, fake, kind, *words):
    short = () if kind == "idle" else SHORT
    with running(fake):
        return figures(capsys, kind, "--clients", "3", "--port", str(fake.port), *short, *words)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("pace", [("--rate", "600"), ("--under-way", "2"), ("--until", "delivery")], ids="-".join)
def test_all_messages_come_once(capsys, kind, qos, version, pace):
    fake = Fake()
    code, found = run(capsys, fake, kind, "--qos", str(qos), "--version", str(version), *pace)
    assert code == 0
    assert found["sent"] == fake.messages > 20
    assert found["accepted"] == (found["sent"] if qos else 0)
    assert found["delivered"] == found["sent"] * (3 if kind == "out" else 1)
    assert (found["lost"], found["duplicated"], found["misordered"], found["foreign"]) == (0, 0, 0, 0)
    assert found["in_per_s"] > 20
    assert found["delivered_ms"]["mean"] > 0
    assert (found["acknowledged_ms"] is None) == (qos == 0)
    published = [one for one in fake.seen if isinstance(one, packets.Publish)]
    assert {len(one.payload) for one in published} == {62}
    assert {one.qos for one in published} == {qos}
    assert len({one.topic for one in published}) == (1 if kind == "out" else 3)


@pytest.mark.parametrize("words", [(), ("--retain",)])
def test_messages_have_the_retain_flag_if_they_are_to_have_it(capsys, words):
    fake = Fake()
    assert run(capsys, fake, "p2p", "--rate", "600", *words)[0] == 0
    assert {one.retain for one in fake.seen if isinstance(one, packets.Publish)} == {bool(words)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_rate_is_kept(capsys, kind):
    begun_s = monotonic()
    _, found = run(capsys, Fake(), kind, "--rate", "400")
    assert 0.18 * 400 * 0.8 <= found["sent"] <= (monotonic() - begun_s) * 400
    assert found["late_ms"] is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("qos", "wanted"), [(0, 0), (1, 1), (2, 1)])
def test_a_lost_message_is_counted_and_at_qos_1_the_exit_code_says_so(capsys, kind, qos, wanted):
    code, found = run(capsys, Fake(lost={4, 7}), kind, "--qos", str(qos), "--rate", "600")
    assert (code, found["lost"]) == (wanted, 6 if kind == "out" else 2)
    assert (found["duplicated"], found["misordered"]) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("qos", "wanted"), [(0, 0), (1, 0), (2, 1)])
def test_a_message_that_comes_twice_is_counted_and_at_qos_2_the_exit_code_says_so(capsys, kind, qos, wanted):
    code, found = run(capsys, Fake(twice={4, 7}), kind, "--qos", str(qos), "--rate", "600")
    assert (code, found["duplicated"]) == (wanted, 6 if kind == "out" else 2)
    assert (found["lost"], found["misordered"]) == (0, 0)


def test_a_message_that_comes_twice_does_not_make_up_for_a_lost_one(capsys):
    code, found = run(capsys, Fake(twice={4}, lost={7}), "p2p", "--rate", "600")
    assert (code, found["lost"], found["duplicated"]) == (1, 1, 1)


def test_messages_out_of_order_are_counted(capsys):
    code, found = run(capsys, Fake(swapped={4, 8}), "out", "--rate", "600")
    assert (code, found["misordered"], found["lost"], found["duplicated"]) == (0, 6, 0, 0)


@pytest.mark.parametrize(("qos", "version"), [(1, 5), (2, 5)])
def test_refused_messages_are_counted_by_their_code_and_are_not_lost(capsys, qos, version):
    words = ("--qos", str(qos), "--version", str(version))
    code, found = run(capsys, Fake(refused={4, 7}), "p2p", *words)
    assert (code, found["refused"], found["lost"]) == (1, {"0x97": 2}, 0)
    assert found["accepted"] == found["sent"] - 2
    with running(Fake(refused={4, 7})) as fake:
        assert bench("p2p", "--clients", "3", "--port", str(fake.port), *SHORT, *words) == 1
    assert "refused     2 with 0x97" in capsys.readouterr().out


@pytest.mark.parametrize("pace", [("--rate", "900"), ("--under-way", "9")], ids="-".join)
def test_the_brokers_receive_maximum_is_kept(capsys, pace):
    fake = Fake(receive_maximum=2, answers_after=2)
    with running(fake):
        words = ("p2p", "--clients", "1", "--port", str(fake.port), "--version", "5", *SHORT, *pace)
        _, found = figures(capsys, *words)
    assert fake.in_flight_max == 2
    assert found["sent"] > 20
    assert found["lost"] == 0


def test_idle_clients_ping_as_often_as_the_broker_asks(capsys):
    fake, begun_s = Fake(server_keep_alive_s=1), monotonic()
    code, found = run(capsys, fake, "idle", "--version", "5", "--seconds", "0.6", "--keep-alive", "60")
    pings = sum(isinstance(one, packets.Pingreq) for one in fake.seen)
    assert code == 0
    assert 3 <= pings <= (monotonic() - begun_s) * 3, "three clients, a ping a second each"
    assert found["memory_client_bytes"] is None


def test_idle_clients_without_a_keep_alive_do_not_ping(capsys):
    fake = Fake()
    run(capsys, fake, "idle", "--keep-alive", "0", "--seconds", "0.1")
    assert not any(isinstance(one, packets.Pingreq) for one in fake.seen)


@pytest.mark.parametrize("version", [4, 5])
def test_sessions_that_last_are_forgotten_at_the_end(capsys, version):
    fake = Fake()
    code, _ = run(capsys, fake, "p2p", "--persistent", "--version", str(version))
    assert code == 0
    connects = [one for one in fake.seen if isinstance(one, packets.Connect)]
    assert not any(one.clean_start for one in connects[:6])
    names = {one.client_id for one in connects[:6]}
    assert len(names) == 6
    if version == 4:
        assert {one.client_id for one in connects[6:]} == names
        assert all(one.clean_start for one in connects[6:])
    else:
        assert all(one.properties[Property.SESSION_EXPIRY_INTERVAL] for one in connects)
        leaving = [one for one in fake.seen if isinstance(one, packets.Disconnect)]
        assert [one.properties for one in leaving] == [{Property.SESSION_EXPIRY_INTERVAL: 0}] * 6


@pytest.mark.parametrize("is_in_environment", [True, False])
def test_user_name_and_password_are_sent_and_not_printed(capsys, monkeypatch, is_in_environment):
    fake, words = Fake(), ("--username", "ann")
    if is_in_environment:
        monkeypatch.setenv("STREAMD_MQTT_PASSWORD", "secret")
    else:
        words = (*words, "--password", "secret")
    code, found = run(capsys, fake, "p2p", *words)
    assert code == 0
    assert {(one.username, one.password) for one in fake.seen if isinstance(one, packets.Connect)} == {
        ("ann", b"secret")
    }
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("numbers", "arrivals"),
    [
        ([0, 1, 2], [Arrival.NEXT] * 3),
        ([0, 0, 1, 0], [Arrival.NEXT, Arrival.AGAIN, Arrival.NEXT, Arrival.AGAIN]),
        ([2, 0, 1, 0], [Arrival.NEXT, Arrival.LATE, Arrival.LATE, Arrival.AGAIN]),
        ([1, 3, 2, 2, 4], [Arrival.NEXT, Arrival.NEXT, Arrival.LATE, Arrival.AGAIN, Arrival.NEXT]),
    ],
)
def test_a_ledger_tells_what_came_late_and_what_came_again(numbers, arrivals):
    ledger = Ledger()
    assert [ledger.note(number) for number in numbers] == arrivals


def test_latencies_have_a_mean_and_percentiles():
    latencies = Latencies()
    assert (latencies.mean_ms, latencies.percentile_ms(0.5)) == (0, 0)
    for ms in range(1, 101):
        latencies.add(ms / 1000)
    assert latencies.mean_ms == pytest.approx(50.5)
    assert latencies.percentile_ms(0.5) == pytest.approx(50, abs=0.02)
    assert latencies.percentile_ms(0.99) == pytest.approx(99, abs=0.02)
    assert latencies.percentile_ms(1) == pytest.approx(100, abs=0.02)

"""`streamd mqtt clients --applications` and `session ID`: an application's pack, retries, lag, gateway, time left."""

import json

from streamd.clients.mqtt.codec import packets as p
from tests.mqtt.seen.running import Client, Gateway
from tests.mqtt.seen.test_mqtt_operating import EXPIRY, do, listed, shown  # noqa: F401

DAY_S = 86_400


def backend(running: Gateway, client_id: str, *filters: str, clean: bool = True) -> Client:
    one = running.client(client_id, properties=EXPIRY, clean_start=clean)
    for filter in filters:
        one.subscribe(filter, 1)
    return one


def test_only_applications_are_listed_with_what_they_have_to_get(running, do):  # noqa: F811
    with backend(running, "backend-1", "seen/app") as app, running.client("device", properties=EXPIRY) as source:
        for _ in range(3):
            source.publish("seen/app", b"x")
        (first, *_) = app.messages(3)
        app.send(p.Puback(first.packet_id))
        app.ping()
        assert listed(do).keys() == {"backend-1", "device"}
        found = listed(do, "--applications")
        assert found.keys() == {"backend-1"}
        said = found["backend-1"]["application"]
        assert DAY_S - 30 < said.pop("retention_left_s") <= DAY_S
        assert said == {"unacknowledged": 2, "taken": 3, "retries": 0}
        name = f"127.0.0.1:{running.ports['mqtt']}"
        assert found["backend-1"]["gateway"] == name
        head, row, last = do("clients", "--applications")[1].splitlines()
        assert " ".join(head.split()) == "CLIENT USER GATEWAY NOT ACKNOWLEDGED RETRIES RETENTION LEFT LAG"
        assert " ".join(row.split()).startswith(f"backend-1 - {name} 2 of 3 0 86,")
        assert last == "1 of 1 applications"


def test_a_session_of_an_application_is_shown_whether_it_is_connected_or_not(running, do):  # noqa: F811
    with backend(running, "backend-2", "seen/two", "$share/g/seen/two") as app, running.client("source") as source:
        source.publish("seen/two", b"x")
        app.messages(2)
        live = shown(do, "backend-2")
        assert live["is_application"]
        assert live["gateway"] == f"127.0.0.1:{running.ports['mqtt']}"
        assert DAY_S - 30 < live["application"].pop("retention_left_s") <= DAY_S
        own, shared = live["application"].pop("packs")
        assert own == {"share": None, "unacknowledged": 1, "taken": 1, "retries": 0}
        assert shared == {**own, "share": "$share/g/seen/two"}
        assert live["application"] == {"unacknowledged": 2, "taken": 2, "retries": 0}
        out = do("session", "backend-2")[1]
        assert "kind           application\n" in out
        assert "pack           share $share/g/seen/two: 1 of 1 not acknowledged, sent again 0 times\n" in out
    with running.client("source") as source:
        while shown(do, "backend-2")["is_connected"]:
            pass
        source.publish("seen/two", b"y")
    away = shown(do, "backend-2")
    assert (away["is_application"], away["gateway"]) == (True, None)
    assert away["application"]["packs"][0] == {"share": None, "unacknowledged": 1, "taken": None, "retries": 0}
    assert DAY_S - 30 < away["application"]["retention_left_s"] <= DAY_S
    assert "retention left 86," in do("session", "backend-2")[1]
    with backend(running, "backend-2"):
        pass


def test_a_session_of_a_device_has_no_packs(running, do):  # noqa: F811
    with running.client("plain", properties=EXPIRY):
        assert shown(do, "plain")["application"] is None
        assert "kind " not in do("session", "plain")[1]
        assert json.loads(do("clients", "--json", "--match", "plain")[1]).get("application") is None

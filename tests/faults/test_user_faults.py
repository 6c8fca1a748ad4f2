"""What many users, and rules of many patterns, cost those who change them and those who follow them."""

from pathlib import Path

import pytest

from streamd.base.clock import ManualClock
from streamd.configuration.server_options import Config
from tests.session import Error, Session, SessionClient

USERS = 60
CLIENTS = 3 * USERS


class Counted(dict):
    """Clients, with a count of those that somebody looked at."""

    count = 0

    def values(self):
        for value in super().values():
            self.count += 1
            yield value


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "users.acl"


def write(path: Path, rules: str = "+@all", first_rules: str | None = None) -> None:
    lines = ["user default on nopass sanitize-payload ~* &* +@all"]
    for number in range(USERS):
        more = first_rules if first_rules is not None and not number else rules
        lines.append(f"user u{number} on nopass ~app{number}:* resetchannels &c{number} {more}")
    path.write_text("\n".join(lines) + "\n")


def started(path: Path) -> tuple[Session, list[SessionClient]]:
    session = Session(ManualClock(), Config(aclfile=str(path)))
    clients = []
    for number in range(CLIENTS):
        client = session.connect()
        assert client.do(f"AUTH u{number % USERS} any") == "OK"
        clients.append(client)
    return session, clients


def prepared(session: Session) -> int:
    return sum(guard.is_prepared for guard in session.engine.access._guards.values())


@pytest.mark.interpreted("a compiled look at a dict does not ask a subclass")
def test_faults2_3_7_acl_load_looks_at_each_client_once_and_not_once_for_each_user(path):
    write(path)
    session, _ = started(path)
    write(path, "+@all -set")
    session.state.clients = session.tracked = Counted(session.state.clients)

    assert session.do("ACL LOAD") == "OK"

    assert session.tracked.count <= 3 * (CLIENTS + 1)


def test_faults2_3_7_the_rules_of_a_user_are_prepared_when_somebody_asks_for_them_first(path):
    write(path)
    session, clients = started(path)
    assert prepared(session) == 0
    clients[3].do("GET app3:x")
    clients[3 + USERS].do("GET app3:x")
    assert prepared(session) == 1

    write(path, "+@all -set")
    assert session.do("ACL LOAD") == "OK"

    assert prepared(session) == 0
    for number, client in enumerate(clients):
        user = number % USERS
        refused = f"NOPERM User u{user} has no permissions to run the 'set' command"
        assert client.do(f"SET app{user}:x v") == Error(refused)
    assert [client.do(f"GET app{number % USERS}:x") for number, client in enumerate(clients)] == [None] * CLIENTS
    assert prepared(session) == USERS


def test_faults2_3_7_acl_load_prepares_nothing_anew_for_users_whose_rules_are_the_same(path):
    write(path)
    session, clients = started(path)
    for number, client in enumerate(clients):
        client.do(f"GET app{number % USERS}:x")
    guards = dict(session.engine.access._guards)

    write(path, first_rules="+@all -set")
    assert session.do("ACL LOAD") == "OK"

    now = session.engine.access._guards
    assert {user.name for user in now if now[user] is not guards[user]} == {b"u0"}
    assert "'set' command" in clients[USERS].do("SET app0:x v").text
    assert clients[1].do("SET app1:x v") == "OK"


def test_faults2_3_7_commands_that_do_the_same_to_a_key_remember_their_names_together(path):
    write(path)
    _, clients = started(path)
    clients[1].do("GET app1:x")

    names = clients[1].client.guard.names

    assert names["get"] is names["lrange"] is names["hget"]
    assert names["get"] == {b"app1:x"}


def test_faults2_3_7_acl_load_closes_those_who_are_subscribed_to_what_was_revoked(path):
    write(path)
    session, clients = started(path)
    for number in range(USERS):
        clients[number].do(f"SUBSCRIBE c{number}")
    path.write_text(path.read_text().replace("&c7 ", "&c8 ").replace("user u9 ", "user other "))

    assert session.do("ACL LOAD") == "OK"

    gone = {number for number, client in enumerate(clients) if client.client.closed}
    assert gone == {7, 9, 9 + USERS, 9 + 2 * USERS}


@pytest.mark.parametrize("first", ["MULTI", "SELECT 1", "EVAL return(redis.call('SET','other','v')) 0", "SET other v"])
def test_faults2_3_7_whatever_a_client_says_first_follows_the_rules(path, first):
    write(path, "+@all -@dangerous")
    _, clients = started(path)
    client = clients[5]

    reply = client.do(first)

    assert isinstance(reply, Error) == ("other" in first)
    assert isinstance(client.do("SET other v"), Error)
    assert isinstance(client.do("SET app5:x v"), Error) is False

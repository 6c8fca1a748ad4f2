"""Clients that wait with filters cost an entry only what its own fields ask for."""

import pytest

from tests.session import SessionClient

MANY = 300


def waiting(engine, field: str, pattern: str = "EQ v", key: str = "s") -> SessionClient:
    client = SessionClient(engine.engine)
    client.say(f"XFILTER {key} 0 + COUNT 1 BLOCK 0 FIELD {field} {pattern}")
    assert client.blocked
    return client


def fields_of(engine, key: bytes = b"s") -> dict:
    return engine.state.blocked._filtered[0, key]._by_field


@pytest.mark.parametrize("pattern", ["EQ v", "MQTT a/+", "MQTT a/#", "GLOB v*", "GLOB v"])
def test_faults2_3_6_a_field_whose_last_filter_has_left_is_forgotten(engine, pattern):
    waiting(engine, "stays")
    for number in range(MANY):
        one, other = (waiting(engine, f"f{number}", pattern) for _ in range(2))
        one.disconnect()
        assert f"f{number}".encode() in fields_of(engine)
        other.disconnect()
    assert list(fields_of(engine)) == [b"stays"]


class Visited(dict):
    """Fields, with a count of those that somebody looked at."""

    count = 0

    def items(self):
        for item in super().items():
            self.count += 1
            yield item

    def get(self, name, default=None):
        self.count += 1
        return super().get(name, default)


@pytest.mark.interpreted("a compiled look at a dict does not ask a subclass")
def test_faults2_3_6_an_entry_visits_its_own_fields_and_not_those_of_all_filters(engine):
    clients = [waiting(engine, f"f{number}") for number in range(MANY)]
    table = engine.state.blocked._filtered[0, b"s"]
    table._by_field = visited = Visited(table._by_field)

    engine.do("XADD s 1-1 x v f7 other y v")

    assert visited.count == 3
    assert all(client.blocked for client in clients)


@pytest.mark.interpreted("a compiled look at a dict does not ask a subclass")
def test_faults2_3_6_an_entry_of_many_fields_visits_those_of_the_filters(engine):
    waiting(engine, "f")
    table = engine.state.blocked._filtered[0, b"s"]
    table._by_field = visited = Visited(table._by_field)

    engine.execute([b"XADD", b"s", b"1-1", *(b"x%d" % number for number in range(2 * MANY))])

    assert visited.count == 1


@pytest.mark.parametrize("others", [0, 1, MANY])
@pytest.mark.parametrize(("values", "is_for"), [("v", True), ("other v", True), ("v other", False), ("other", False)])
def test_faults2_3_6_the_last_value_of_a_field_counts_however_many_filters_there_are(engine, others, values, is_for):
    for number in range(others):
        waiting(engine, f"f{number}")
    client = waiting(engine, "f")

    engine.do("XADD s 1-1 x v " + " ".join(f"f {value}" for value in values.split()))

    assert client.blocked is not is_for

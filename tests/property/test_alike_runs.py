"""Pipelines that are read by templates and executed by columns do what their requests do one after the other."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamd.catalog import Context
from streamd.commands.stream import append_runs
from streamd.resp.decoder import Decoder
from streamd.resp.fast_decoder import ROWS_MIN, FastDecoder
from streamd.resp.template import RequestColumns
from streamd.stream.stream import Stream
from tests.connected import Host, encoded
from tests.crash.state_dump import dump
from tests.examples import examples

CLIENTS = 3
# `%` becomes a number that counts up with each request, of as many digits as others, `#` one of as many as it needs,
# `@` its last digit, `&` a digit that three requests share.
HEADS = [
    ["XADD", "s", "*"], ["XADD", "s", "*"], ["XADD", "s", "*"], ["xadd", "s", "*"], ["XADD", "t", "*"],
    ["XADD", "text", "*"], ["XADD", "new", "*"], ["XADD", "s:%", "*"], ["XADD", "s", "NOMKSTREAM", "*"],
    ["XADD", "s:@", "*"], ["XADD", "s:@", "*"], ["XADD", "s:@", "MAXLEN", "~", "5", "*"],
    ["XADD", "s:@", "IDMP", "p", "%", "*"], ["XADD", "s:&", "*"], ["XADD", "s:&", "MAXLEN", "~", "5", "*"],
    ["XADD", "s", "MAXLEN", "~", "5", "*"], ["XADD", "s", "MAXLEN", "9", "*"], ["XADD", "s", "MAXLEN", "%", "*"],
    ["XADD", "s", "MAXLEN", "~", "1", "LIMIT", "4", "*"], ["XADD", "s", "MAXLEN", "3", "DELREF", "*"],
    ["XADD", "s", "IDMP", "p", "%", "*"], ["XADD", "s", "IDMP", "p", "%", "*"], ["XADD", "s", "IDMP", "%", "iid", "*"],
    ["XADD", "s", "IDMP", "p", "same", "*"], ["XADD", "s", "IDMP", "", "%", "*"], ["XADD", "s", "IDMP", "%", "%", "*"],
    ["XADD", "s", "IDMP", "q", "%", "MAXLEN", "~", "6", "*"], ["XADD", "s", "IDMPAUTO", "p", "*"],
    ["XADD", "s", "IDMP", "p", "#", "*"], ["XADD", "s", "IDMP", "#", "%", "*"], ["XADD", "s", "IDMPAUTO", "#", "*"],
    ["XADD", "s", "IDMPAUTO", "%", "*"], ["XADD", "s", "1-1"], ["XADD", "s", "9000000000000-%"], ["SET", "k"], ["XADD"],
]  # fmt: skip
FIELDS = [
    ["f", "%"], ["f", "%"], ["f", "v"], ["f", "%", "g", "%"], ["f", "%", "g", "same"], ["f", "same", "g", "%"],
    ["%", "v"], ["%", "%"], ["f"], ["g", "%"], ["f", "%", "g", "%%%"], ["f", "%", "f", "%", "f", "%"],
    ["f", "", "g", "%"], ["f", "#"], ["f", "#", "g", "%"], ["#", "%"], [],
]  # fmt: skip
KINDS = st.builds(lambda head, fields: [*head, *fields], st.sampled_from(HEADS), st.sampled_from(FIELDS))
# Who waits sends nothing else: what stands behind it would be executed between two requests, or behind a pipeline.
WAITS = st.sampled_from([
    ["XREAD", "BLOCK", "0", "STREAMS", "s", "$"], ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"],
    ["XREAD", "BLOCK", "0", "STREAMS", "t", "$"], ["XREAD", "BLOCK", "0", "STREAMS", "s:3", "$"],
])  # fmt: skip
ASIDES = st.sampled_from([
    ["MONITOR"], ["PSUBSCRIBE", "*"], ["WATCH", "s"],
    ["CONFIG", "SET", "notify-keyspace-events", "KEA"], ["CONFIG", "SET", "notify-keyspace-events", ""],
    ["CONFIG", "SET", "slowlog-log-slower-than", "0"], ["DEL", "s"], ["PEXPIRE", "s", "5"], ["PEXPIRE", "s", "50000"],
    ["XDEL", "s", "1700000000000-3"], ["XADD", "s", "*", "f", "v"], ["XADD", "s", "*", "other", "v"],
    ["XTRIM", "s", "MAXLEN", "3"], ["XRANGE", "s", "-", "+"], ["XREVRANGE", "s", "+", "-", "COUNT", "2"],
    ["COPY", "s", "t", "REPLACE"], ["XREADGROUP", "GROUP", "g", "c", "COUNT", "3", "STREAMS", "s", ">"],
    ["CONFIG", "SET", "stream-node-max-entries", "7"], ["MULTI"], ["EXEC"], ["XSETID", "s", "8000000000000-1"],
    ["WATCH", "s:4"], ["DEL", "s:1"], ["PEXPIRE", "s:2", "5"], ["XDEL", "s:5", "1700000000000-0"],
    ["XADD", "s:6", "*", "g", "v"],
    ["XCFGSET", "s", "IDMP-MAXSIZE", "5"], ["CLIENT", "TRACKING", "ON", "BCAST"], ["SELECT", "1"], ["BGREWRITEAOF"],
])  # fmt: skip
# (whose; 0 for that client's kind, or how many kinds further; how many; whether their numbers are those sent before;
# where it is cut into two pieces)
PIPELINES = st.tuples(
    st.integers(0, CLIENTS - 1),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.sampled_from([6, 6, 7, 12, 1, 2, 3, 4]),
    st.booleans(),
    st.integers(0, 999),
)
TURNS = st.lists(
    st.tuples(
        st.lists(
            st.one_of(
                st.tuples(st.integers(0, CLIENTS - 1), ASIDES), st.tuples(st.integers(CLIENTS, CLIENTS + 1), WAITS)
            ),
            max_size=1,
        ),
        st.one_of(
            st.lists(PIPELINES, max_size=5),
            # One from each, as load is.
            st.builds(
                lambda count, again: [(client, 0, count, again, 0) for client in range(CLIENTS)],
                st.sampled_from([2, 3, 4, 6, 7, 12]),
                st.booleans(),
            ),
        ),
    ),
    min_size=1,
    max_size=6,
)


def numbered(kind: list[str], number: int) -> list[bytes]:
    texts = {"%": f"{number:03d}", "#": f"{number}", "@": f"{number % 10}", "&": f"{number // 3 % 10}"}
    return ["".join([texts.get(letter, letter) for letter in word]).encode() for word in kind]


def nodes(value: object) -> Any:
    """Return how many entries each node of a stream took, and how many of them are left."""
    if not isinstance(value, Stream):
        return None
    log = value.log
    sealed = log._sealed.segments[log._sealed.head :] if log._sealed else []
    tail = [(len(log._ids) + log._gone, len(log._ids))] if log._ids or log._gone else []
    return [(node.used, node.live_count) for node in sealed] + tail


def without_seen(shown: Any) -> Any:
    """Return the state without when a consumer was seen, which nobody records where it got nothing."""
    if isinstance(shown, dict):
        return {name: without_seen(value) for name, value in shown.items() if name != b"seen-time"}
    return [*map(without_seen, shown)] if isinstance(shown, (list, tuple)) else shown


class Connections:
    """Clients that send bytes to connections; `by_columns`: else their requests arrive one by one.

    alike: how often requests of one template arrived.
    """

    def __init__(self, host: Host, by_columns: bool, rules: str) -> None:
        self.host = host
        self.by_columns = by_columns
        self.all = [host.open() for _ in range(CLIENTS + 2)]
        self.alike = 0
        self._requests = [Decoder() for _ in self.all]
        self._take_columns = host.engine.gathering.take_columns
        host.engine.gathering.take_columns = self._count_alike
        if rules:
            words = ["ACL", "SETUSER", "ann", "on", "nopass", *rules.split()]
            host.receive(self.all[0], [[word.encode() for word in words]], is_shared=False)
            host.receive(self.all[1], [[b"AUTH", b"ann", b"any"]], is_shared=False)
            host.turns()

    def _count_alike(self, client: Context, requests: RequestColumns) -> bool:
        self.alike += 1
        return self._take_columns(client, requests)

    def receive(self, number: int, data: bytes) -> None:
        """Have bytes arrive."""
        if self.by_columns:
            self.all[number].data_received(data)
            return
        self._requests[number].feed(data)
        for request in self._requests[number].take():
            self.host.receive(self.all[number], [request], is_shared=False)

    def written(self) -> list[bytes]:
        """Return all that has left towards each client."""
        return [self.host.written(connection) for connection in self.all]

    def waits(self, number: int) -> bool:
        """Return whether a client is blocked."""
        client = self.all[number].client
        return client is not None and client.waiter is not None


def outcome(kinds: list[list[str]], turns: Any, by_columns: bool, policy: str | None, rules: str) -> tuple[Any, ...]:
    """rules: of the user that the second client is."""
    host = Host(appendfsync=policy or "no", stream_node_max_entries=4)
    server, engine = host.restartable, host.engine
    if policy is None:
        server.turn_off()
    for words in (["SET", "text", "x"], ["XADD", "s", "*", "f", "v"], ["XADD", "t", "*", "f", "v"]):
        server.send(*words)
    server.send("XGROUP", "CREATE", "s", "g", "0")
    connections = Connections(host, by_columns, rules)
    seen: list[Any] = []
    number = 0

    def end_turn() -> None:
        host.turns()
        seen.append(connections.written())
        seen.append([nodes(value) for value in engine.state.keyspace[0].values.values()])
        server.clock.advance(3)

    # So often first, which a template takes to be known.
    warm = [([], [(client, 0, 6, False, 0) for client in range(CLIENTS)])] * 4
    for asides, pipelines in [*warm, *turns]:
        for who, words in asides:
            if connections.waits(who):
                continue
            connections.receive(who, encoded([word.encode() for word in words]))
        for who, further, count, again, cut in pipelines:
            kind = kinds[(who + further) % len(kinds)]
            start = max(0, number - count) if again else number
            number = max(number, start + count) % 980
            data = b"".join([encoded(numbered(kind, n)) for n in range(start, start + count)])
            pieces = [data[: cut % len(data)], data[cut % len(data) :]] if cut % 3 == 1 else [data]
            for piece in pieces:
                connections.receive(who, piece)
        end_turn()
    assert engine.state.stats.internal_errors == 0
    for words in (["XRANGE", "s", "-", "+"], ["XINFO", "STREAM", "s", "FULL"], ["XINFO", "STREAM", "t", "FULL"]):
        seen.append(server.send(*words))
    slow = [(entry.words, entry.address) for entry in engine.state.slowlog.entries]
    before = dump(engine)
    if policy is not None:
        assert without_seen(dump(server.restart().engine)) == without_seen(before)
    return seen, slow, engine.state.dirty, before, connections.alike


@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    st.lists(KINDS, min_size=1, max_size=3),
    TURNS,
    st.sampled_from([None, None, "always", "everysec"]),
    st.sampled_from(["", "", "+@all ~s ~t", "+@all ~* -xadd", "+@all ~s:* ~t"]),
)
def test_by_columns_or_one_by_one_is_the_same(kinds, turns, policy, rules):
    assert outcome(kinds, turns, True, policy, rules)[:-1] == outcome(kinds, turns, False, policy, rules)[:-1]


@pytest.fixture
def batches(monkeypatch):
    """How many requests each batch by columns had, and 0 for each that was refused."""
    taken: list[int] = []
    function = append_runs._append_columns

    def counted(context: Context, places: Any, count: int, *others: Any) -> bool:
        done = function(context, places, count, *others)
        taken.append(count if done else 0)
        return done

    monkeypatch.setattr(append_runs, "_append_columns", counted)
    return taken


@pytest.mark.parametrize("head", [
    ["*"], ["MAXLEN", "~", "5", "*"], ["NOMKSTREAM", "*"], ["IDMP", "p", "%", "*"], ["IDMP", "%", "%", "*"],
    ["IDMPAUTO", "p", "*"], ["MAXLEN", "5", "IDMP", "p", "%", "*"],
])  # fmt: skip
@pytest.mark.parametrize("fields", [["f", "%"], ["f", "same", "g", "%"], ["f", "%", "g", "%", "h", "%"]])
@pytest.mark.parametrize("policy", [None, "always"])
def test_what_one_or_several_clients_send_is_one_batch_by_columns(batches, head, fields, policy):
    kind = ["XADD", "s", *head, *fields]
    if len(kind) < 8 and kind.count("%") > 2:
        pytest.skip("most words have to be shared")
    turns = [([], [(client, 0, 6, False, 0) for client in range(CLIENTS)]), ([], [(0, 0, 12, False, 0)])]
    expected = outcome([kind], turns, False, policy, "")
    assert batches == []
    seen = outcome([kind], turns, True, policy, "")
    assert seen[:-1] == expected[:-1]
    assert batches[-2:] == [6 * CLIENTS, 12]


def test_templates_that_differ_in_the_lengths_of_values_are_one_batch(batches):
    head = ["XADD", "s", "IDMP", "p"]
    kinds = [[*head, "%", "*", "f", "%", "g", "v"], [*head, "a%", "*", "f", "%%", "g", "w"]]
    turns = [([], [(client, 0, 6, False, 0) for client in range(CLIENTS)])]
    expected = outcome(kinds, turns, False, "always", "")
    seen = outcome(kinds, turns, True, "always", "")
    assert seen[:-1] == expected[:-1]
    assert batches[-1] == 6 * CLIENTS


@pytest.mark.parametrize("head", [
    ["*"], ["IDMP", "p", "%", "*"], ["IDMP", "%", "%", "*"], ["IDMPAUTO", "%", "*"], ["MAXLEN", "5", "*"],
])  # fmt: skip
@pytest.mark.parametrize("fields", [["f", "%"], ["f", "v", "g", "%"], ["f", "%", "g", "same"]])
@pytest.mark.parametrize("odd", range(CLIENTS))
def test_requests_that_no_template_fits_are_in_one_batch_with_the_others(batches, head, fields, odd):
    kind = ["XADD", "s", *head, *fields]
    # (Of five all words are cut out, as of requests that are not equally long.)
    turns = [([], [(client, 0, 5 if client == odd else 6, False, 0) for client in range(CLIENTS)])] * 2
    expected = outcome([kind], turns, False, "always", "")
    seen = outcome([kind], turns, True, "always", "")
    assert seen[:-1] == expected[:-1]
    assert batches[-2:] == [6 * CLIENTS - 1] * 2


@pytest.mark.parametrize("count", [3, 4, 5])
def test_small_pipelines_of_several_clients_are_one_batch(batches, count):
    kind = ["XADD", "s", "*", "f", "%"]
    turns = [([], [(client, 0, count, False, 0) for client in range(CLIENTS)])] * 2
    expected = outcome([kind], turns, False, "always", "")
    assert outcome([kind], turns, True, "always", "")[:-1] == expected[:-1]
    assert batches[-2:] == [count * CLIENTS] * 2


LAST_ID = "18446744073709551615-18446744073709551615"


@pytest.fixture
def to_each(monkeypatch):
    """How many requests each batch to several streams had."""
    taken: list[int] = []
    function = append_runs._append_to_each

    def counted(*arguments: Any) -> int:
        taken.append(function(*arguments))
        return taken[-1]

    monkeypatch.setattr(append_runs, "_append_to_each", counted)
    return taken


@pytest.mark.parametrize(("aside", "some"), [
    (["PING"], 36), (["WATCH", "s:4"], 36), (["CLIENT", "TRACKING", "ON", "BCAST"], None), (["MONITOR"], None),
    (["XREAD", "BLOCK", "0", "STREAMS", "s:3", "$"], 0), (["PEXPIRE", "s:2", "5"], 0), (["PEXPIRE", "s:2", "9999"], 0),
    (["SET", "s:6", "text"], 0), (["DEL", "s:7"], 0), (["XSETID", "s:5", LAST_ID], 7),
    (["XSETID", "s:5", "1700000000000-9"], 36), (["XTRIM", "s:8", "MAXLEN", "0"], 36),
    (["CONFIG", "SET", "notify-keyspace-events", "KEA"], None),
])  # fmt: skip
@pytest.mark.parametrize("fields", [["f", "%"], ["f", "same", "g", "%"], ["%", "v"]])
@pytest.mark.parametrize("policy", [None, "always"])
@pytest.mark.parametrize("rules", ["", "+@all ~s:*", "+@all ~s:1 ~s:2"])
def test_requests_to_several_streams_are_one_batch(to_each, aside, some, fields, policy, rules):
    kind = ["XADD", "s:@", "*", *fields]
    who = CLIENTS if "BLOCK" in aside else 0
    warm = [([], [(client, 0, 12, False, 0) for client in range(CLIENTS)])]
    turns = [*warm, ([(who, aside)], warm[0][1]), *warm, ([(0, ["MULTI"])], []), ([(0, ["EXEC"])], [])]
    expected = outcome([kind], turns, False, policy, rules)
    assert to_each == []
    seen = outcome([kind], turns, True, policy, rules)
    assert seen[:-1] == expected[:-1]
    if some is not None and rules != "+@all ~s:1 ~s:2":
        assert to_each[3] == some


@pytest.mark.parametrize(("command", "is_shared", "count", "rows"), [
    (b"XADD", True, 2, False), (b"XADD", False, 2, True), (b"XADD", False, ROWS_MIN - 1, True),
    (b"XADD", False, ROWS_MIN, False), (b"SET", True, 2, True), (b"SET", True, ROWS_MIN - 1, True),
])  # fmt: skip
def test_few_requests_are_made_where_each_is_looked_at_anyway(command, is_shared, count, rows):
    decoder = FastDecoder()
    words = [command, b"s", b"NX", b"f", b"v"]
    alike = []
    for number in range(9):
        words[-1] = b"%d" % number
        received = decoder.receive(encoded(words) * (8 if number < 6 else count), is_shared)
        if isinstance(received, RequestColumns):
            received.template.is_asked_for_rows = command == b"SET"  # as who executes it says
            received = received.rows()
            alike.append(number)
        assert received == [words] * (8 if number < 6 else count)
    assert [number for number in alike if number >= 6] == ([] if rows else [6, 7, 8])


@pytest.mark.parametrize("other", [
    ["XADD", "s", "*", "g", "%"], ["XADD", "s", "MAXLEN", "~", "5", "*", "f", "%"], ["XADD", "t", "*", "f", "%"],
    ["XADD", "s", "*", "f", "v", "g", "%"], ["XADD", "s", "*", "f", "w"],
])  # fmt: skip
def test_templates_with_other_heads_or_names_in_one_turn_are_told_apart(batches, other):
    kinds = [["XADD", "s", "*", "f", "%"], other]
    turns = [([], [(client, 0, 6, False, 0) for client in range(CLIENTS)])]
    assert outcome(kinds, turns, True, "always", "")[:-1] == outcome(kinds, turns, False, "always", "")[:-1]


@pytest.mark.parametrize("shorter", [["5", "*", "f", "%"], ["~", "5", "*", "f", "%"]])
@pytest.mark.parametrize("longer", [
    ["=", "5", "IDMP", "p", "%", "*", "f", "%"], ["~", "9", "IDMPAUTO", "p", "*", "f", "%"],
])  # fmt: skip
def test_a_template_shorter_than_the_head_of_the_first_is_told_apart(batches, longer, shorter):
    kinds = [["XADD", "s", "MAXLEN", *longer], ["XADD", "s", "MAXLEN", *shorter]]
    turns = [([], [(client, 0, 6, False, 0) for client in range(CLIENTS)])]
    assert outcome(kinds, turns, True, "always", "")[:-1] == outcome(kinds, turns, False, "always", "")[:-1]


@pytest.mark.parametrize("other", [
    ["XADD", "s", "MAXLEN", "~", "9", "*", "f", "%"], ["XADD", "s", "MAXLEN", "=", "5", "*", "f", "%"],
    ["XADD", "s", "MAXLEN", "~", "5", "*", "f", "%", "g", "v"], ["XADD", "s", "MAXLEN", "2", "*", "f", "%"],
])  # fmt: skip
def test_heads_that_differ_behind_their_first_words_are_told_apart(batches, other):
    kinds = [["XADD", "s", "MAXLEN", "~", "5", "*", "f", "%"], other]
    turns = [([], [(client, 0, 6, False, 0) for client in range(CLIENTS)])] * 2
    seen = outcome(kinds, turns, True, "always", "")
    assert seen[:-1] == outcome(kinds, turns, False, "always", "")[:-1]
    assert max(batches) == 6  # of one client each


@pytest.mark.parametrize(("head", "fields", "other"), [
    ([], ["f", "%"], ["*", "g", "%"]), ([], ["f", "%"], ["*", "f", "%", "f", "%"]), ([], ["f", "%"], ["*", "f"]),
    ([], ["f", "%"], ["*", "f", "%%"]), ([], ["f", "%", "g", "%"], ["*", "f", "%", "g", "v"]),
    ([], ["f", "%", "g", "%"], ["*", "f", "%", "h", "%"]), ([], ["f", "%"], ["*", "f", "#"]),
    (["MAXLEN", "~", "5"], ["f", "%"], ["MAXLEN", "=", "5", "*", "f", "%"]),
    (["MAXLEN", "~", "5"], ["f", "%"], ["MAXLEN", "~", "9", "*", "f", "%"]),
    (["IDMP", "p", "%"], ["f", "%"], ["IDMP", "", "%", "*", "f", "%"]),
    (["IDMP", "p", "%"], ["f", "%"], ["IDMP", "q", "a#", "*", "f", "%"]),
    (["IDMP", "p", "%"], ["f", "%"], ["IDMP", "p", "%", "MAXLEN", "4", "*", "f", "%"]),
])  # fmt: skip
@pytest.mark.parametrize("by_whom", [1, 2])
def test_requests_that_no_template_fits_are_told_apart_in_a_batch_with_others(batches, head, fields, other, by_whom):
    kinds = [["XADD", "s", *head, "*", *fields]] * CLIENTS
    kinds[by_whom] = ["XADD", "s", *other]
    # (Of five all words are cut out; those of the second and the third client stand behind each other.)
    turns = [([], [(0, 0, 6, False, 0), (1, 0, 5, False, 0), (2, 0, 5, False, 0)])] * 3
    seen = outcome(kinds, turns, True, "always", "")
    tried = len(batches)
    assert seen[:-1] == outcome(kinds, turns, False, "always", "")[:-1]
    assert tried >= 3


@pytest.mark.parametrize("count", [2, ROWS_MIN])
def test_a_pipeline_cut_at_any_byte_is_the_same(count):
    kind = ["XADD", "s", "*", "f", "%", "g", "v"]
    size = len(encoded(numbered(kind, 1))) * count
    turns = [([], [(0, 0, count, False, cut), (1, 0, count, False, 0)]) for cut in range(1, size, count // 2)]
    seen = outcome([kind], turns, True, None, "")
    assert seen[:-1] == outcome([kind], turns, False, None, "")[:-1]
    assert seen[-1] > 10


def test_a_bug_in_a_batch_is_answered_to_all_who_were_in_it(monkeypatch):
    host = Host()
    server = host.restartable
    server.send("XADD", "s", "*", "f", "v")
    connections = Connections(host, True, "")

    def broken(*arguments: Any) -> bool:
        raise ZeroDivisionError

    data = b"".join([encoded([b"XADD", b"s", b"*", b"f", b"%d" % number]) for number in range(8)])
    for _ in range(3):
        for client in range(2):
            connections.receive(client, data)
        host.turns()
    monkeypatch.setattr(append_runs, "_append_columns", broken)
    before = [len(written) for written in connections.written()]
    for client in range(2):
        connections.receive(client, data)
    host.turns()
    for written, size in zip(connections.written()[:2], before[:2], strict=True):
        assert written[size:] == b"-ERR internal error\r\n" * 8
    assert len(server.engine.state.keyspace[0].stream(b"s")) == 1 + 3 * 16

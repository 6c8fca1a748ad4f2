"""A reply that is made in slices is the one that would have been made at once, whatever happens meanwhile."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamd.resp.reply_ends import split_replies
from tests.examples import examples
from tests.session import Session, SessionClient

SLICED_IN = ("commands.long_replies", "commands.keys.keys", "stream.entry_replies", "commands.stream.xpending",
             "commands.stream.xinfo", "commands.stream.group_reads", "commands.keys.scan_pages", "resp.encoder",
             "resp.slicing", "commands.keys.sorted_set_ranges", "commands.keys.dump")  # fmt: skip

READS = st.sampled_from([
    "XRANGE s - +", "XRANGE s - + COUNT 7", "XREVRANGE s + -", "XREVRANGE s 40 3 COUNT 9", "XRANGE s 5 5",
    "XREAD STREAMS s t 0 0", "XREAD COUNT 6 STREAMS s 4", "XREAD BLOCK 0 STREAMS s $",
    "XPENDING s g - + 1000", "XPENDING s g - + 8 c", "XPENDING s g IDLE 3 - + 1000", "XPENDING s g",
    "XINFO STREAM s FULL COUNT 0", "XINFO STREAM s FULL COUNT 2", "XINFO GROUPS s", "XINFO CONSUMERS s g",
    "XREADGROUP GROUP g c STREAMS s 0", "XREADGROUP GROUP g c COUNT 5 STREAMS s 2",
    "XREADGROUP GROUP g d STREAMS s >", "XREADGROUP GROUP g d BLOCK 0 STREAMS s >",
    "KEYS *", "KEYS k*", "HGETALL h", "HKEYS h", "HVALS h", "LRANGE l 0 -1", "LRANGE l 1 5", "PING", "GET s",
    "SMEMBERS m", "SUNION m m", "ZRANGE z 0 -1 WITHSCORES", "MGET k1 k2 k3 k4 k5 k6 k7 k8", "HMGET h f1 f2 f3 f4",
    "SORT l", "DUMP s", "DUMP h", "DUMP l",
    "SMISMEMBER m m1 x m2 m3", "COMMAND LIST",
])  # fmt: skip
IDS = st.integers(1, 60)
WRITES = st.one_of(
    st.sampled_from([
        "DEL s", "FLUSHALL", "RENAME s t", "RENAME t s", "COPY s t REPLACE", "XTRIM s MAXLEN 3", "DEL h", "DEL k1",
        "XGROUP DESTROY s g", "XGROUP CREATE s g 0 MKSTREAM", "XGROUP DELCONSUMER s g c", "XAUTOCLAIM s g e 0 0",
        "XGROUP SETID s g 0", "SWAPDB 0 1", "MULTI", "HSET h f1 w", "HDEL h f2", "RPUSH l z", "LPOP l", "KILL", "FILL",
        "XREADGROUP GROUP g new STREAMS s >", "CONFIG SET stream-node-max-entries 3",
    ]),
    IDS.map(lambda n: f"XADD s {n + 60} f v{n}"),
    IDS.map(lambda n: f"XADD s {n + 60} f {'w' * n} g x"),
    IDS.map(lambda n: f"XDEL s {n} {n + 1} {n + 7}"),
    IDS.map(lambda n: f"XACK s g {n} {n + 2}"),
    IDS.map(lambda n: f"XCLAIM s g e 0 {n} {n + 1} {n + 3}"),
    IDS.map(lambda n: f"XGROUP CREATE s g{n} {n}"),
    IDS.map(lambda n: f"SET k{n} v"),
    IDS.map(lambda n: f"PEXPIRE k{n % 9} {n}"),
)  # fmt: skip
# Reads, slices of them, and what others do then.
ROUNDS = st.lists(
    st.tuples(
        st.lists(READS, min_size=1, max_size=3), st.integers(0, 6), st.lists(WRITES, max_size=5), st.integers(0, 6)
    ),
    max_size=4,
)
LONG = ["XRANGE s - +", "XREVRANGE s + -", "XREAD STREAMS s 0", "XPENDING s g - + 1000", "XPENDING s g - + 1000 c",
        "XINFO STREAM s FULL COUNT 0", "XINFO GROUPS s", "XINFO CONSUMERS s g", "XREADGROUP GROUP g c STREAMS s 0",
        "XREADGROUP GROUP g d STREAMS s >", "KEYS *", "HGETALL h", "HKEYS h", "HVALS h", "LRANGE l 0 -1",
        "SMEMBERS m", "ZRANGE z 0 -1 WITHSCORES", "MGET k1 k2 k3 k4 k5 k6 k7 k8",
        "DUMP s", "DUMP h", "DUMP l", "DUMP m", "DUMP z"]  # fmt: skip
ALL_WRITES = [
    "DEL s", "FLUSHALL", "RENAME s t", "XTRIM s MAXLEN 3", "XTRIM s MINID 9", "XDEL s 33 34 38 39 5 6",
    "XACK s g 1 2 14 15", "XACK s g 9", "XCLAIM s g e 0 5 6 13 14 15", "XAUTOCLAIM s g e 0 0", "XGROUP DESTROY s g",
    "XGROUP DELCONSUMER s g c", "XGROUP DESTROY s g5", "XGROUP SETID s g6 0", "XREADGROUP GROUP g new STREAMS s >",
    "XREADGROUP GROUP g c STREAMS s 0", "XADD s 70 f v", "SWAPDB 0 1", "DEL h", "HSET h f8 w f9 w", "HDEL h f7 f8",
    "SADD m m10", "SREM m m1 m2 m3", "ZADD z 7 m1 3 m10", "ZREM z m2 m3 m8", "DEL m z",
    "RPUSH l z", "LPOP l", "DEL k7 k8", "SET k99 v", "PEXPIRE k8 0", "KILL",
]  # fmt: skip
FILL = [
    *(f"XADD s {n} f v{n}" for n in range(1, 41)),
    "XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 15 STREAMS s >", "XREADGROUP GROUP g b COUNT 5 STREAMS s >",
    *(f"XGROUP CREATE s g{n} {n}" for n in range(8)), *(f"XGROUP CREATECONSUMER s g c{n}" for n in range(8)),
    *(f"SET k{n} v" for n in range(9)), *(f"HSET h f{n} v{n}" for n in range(9)), *(f"RPUSH l {n}" for n in range(9)),
    *(f"SADD m m{n}" for n in range(9)), *(f"ZADD z {n} m{n}" for n in range(9)),
]  # fmt: skip


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    """Make in slices what short histories have."""
    for module in SLICED_IN:
        monkeypatch.setattr(f"streamd.{module}.SLICED_ITEMS_MIN", 3)
    for name in ("commands.long_replies.ROWS", "commands.long_replies.ITEMS", "resp.slicing.ITEMS"):
        monkeypatch.setattr(f"streamd.{name}_AT_ONCE", 2)
    monkeypatch.setattr("streamd.commands.keys.scan_pages.ITEMS_AT_ONCE", 2)
    # What is small in Redis's eyes has no order, and is shown on one page.
    monkeypatch.setattr("streamd.data.hash._LISTED_FIELDS_MAX", 3)
    monkeypatch.setattr("streamd.data.member_set._SMALL_MAX", 3)
    monkeypatch.setattr("streamd.data.sorted_set.LISTED_MEMBERS_MAX", 3)
    monkeypatch.setattr("streamd.stream.groups.pending.CHUNK_ENTRIES_MAX", 4)


class Pair:
    """Two servers that get the same requests: one whose reader has a connection, and one that makes replies whole."""

    def __init__(self, protocol: int) -> None:
        self.sliced, self.whole = Session(), Session()
        for session in (self.sliced, self.whole):
            session.do("CONFIG SET stream-node-max-entries 4")
        self.reader = SessionClient(self.sliced.engine, protocol)
        self.twin = SessionClient(self.whole.engine, protocol)
        self.slices = 0
        self.is_killed = False
        client, engine = self.reader.client, self.sliced.engine

        def resume() -> None:
            if client.waiter is None and not client.closed:
                self.slices += client.unfinished is not None
                engine.make_slices(client)

        client.resume = resume
        ticks = iter(range(0, 10**12, 10**6))
        engine.calls.stopwatch = lambda: next(ticks)  # a slice has one piece
        self.sliced.do("CONFIG SET slowlog-log-slower-than -1")
        for command in engine.commands.leaves():
            command.handler = self.told(command.handler)
            if command.batch is not None:
                command.batch = self.told_of_run(command.batch)
        if protocol == 3:
            self.reader.say("SUBSCRIBE news")
            self.reader.received()
            self.twin.received()

    def told(self, handler):
        """Have the twin execute what the reader's server executes for it, at the same moment."""

        def handle(context, args):
            if context is self.reader.client:
                self.twin.send(args)
            return handler(context, args)

        return handle

    def told_of_run(self, batch):
        """Have the twin execute what is executed for the reader as a run."""

        def run(context, requests):
            taken = batch.take(context, requests)
            if context is self.reader.client:
                for request in requests.rows()[:taken]:
                    self.twin.send(request)
            return taken

        return replace(batch, take=run)

    def wait(self, milliseconds: int, *, ticks: bool = True) -> None:
        """Let time pass; what has expired is removed when somebody meets it."""
        for session in (self.whole, self.sliced):
            if ticks:
                session.clock.advance(milliseconds)
            else:
                session.clock._now_us += 1_000 * milliseconds

    def go_on(self) -> None:
        """Run a turn."""
        assert self.reader.client.resume is not None
        self.reader.client.resume()
        self.sliced.engine.end_turn()

    def write(self, line: str) -> None:
        """Have another client do something on both."""
        if line == "MULTI":
            for session in (self.whole, self.sliced):
                session.send(["MULTI"], ["DEL", "t"], ["XTRIM", "s", "MAXLEN", "5"], ["EXEC"])
        elif line == "KILL":
            self.sliced.do(f"CLIENT KILL ID {self.reader.client.id}")
            self.is_killed = True
        else:
            lines = [one.split() for one in (FILL if line == "FILL" else [line])]
            self.whole.send(*lines)  # first: what it sets going in the other one is to find it done here
            self.sliced.send(*lines)
        assert self.sliced.received() == self.whole.received() or self.is_killed

    def end(self) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """Let all be answered; return the reader's replies and pushes, and the replies that were made at once."""
        for _ in range(10_000):
            if self.is_killed or not self.reader.client.backlog or self.reader.client.waiter is not None:
                break
            self.go_on()
        else:
            raise AssertionError("it does not end")
        assert self.sliced.state.stats.internal_errors == self.whole.state.stats.internal_errors == 0
        data = self.reader.received()
        if self.is_killed:
            return [data], [], [self.twin.received()]
        parts = list(split_replies(data))
        expected = [part for part in split_replies(self.twin.received()) if not part.startswith(b">")]
        replies = [part for part in parts if not part.startswith(b">")]
        return replies, [part for part in parts if part.startswith(b">")], expected

    def check(self, published: list[bytes]) -> None:
        """Let all be answered, and compare."""
        replies, pushes, expected = self.end()
        if not self.is_killed:
            assert replies == expected
            assert [push.split(b"\r\n")[-2] for push in pushes] == published
        elif not published:
            assert expected[0].startswith(replies[0])


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROUNDS, st.sampled_from([2, 3]))
def test_a_reply_in_slices_is_the_one_of_its_decision_and_replies_keep_their_order(rounds, protocol):
    pair = Pair(protocol)
    published: list[bytes] = []
    for reads, before, lines, behind in rounds:
        pair.write("FILL")
        if not pair.is_killed:
            pair.reader.send(*(line.split() for line in reads))
        for _ in range(before):
            pair.go_on()
        for line in lines:
            pair.write(line)
            if protocol == 3:
                published.append(b"%d" % len(published))
                pair.write(f"PUBLISH news {len(published) - 1}")
            pair.wait(2)
        for _ in range(behind):
            pair.go_on()
    pair.check(published)


def concerns(write: str, line: str) -> bool:
    """Return whether a write may change what a read shows."""
    key = next((word for word in line.split() if word in ("s", "h", "l", "m", "z")), "k")
    words = write.split()
    return words[0] in ("FLUSHALL", "SWAPDB", "KILL") or any(word.rstrip("0123456789") == key for word in words)


@pytest.mark.parametrize("line", LONG)
def test_whatever_another_client_does_after_each_slice_the_reply_is_that_of_its_decision(line):
    for number, write in enumerate(one for one in ALL_WRITES if concerns(one, line)):
        before = 0
        is_made = False
        while not is_made:
            pair = Pair(3 if number % 2 else 2)
            pair.write("FILL")
            pair.write("PEXPIRE k5 1")
            pair.wait(1, ticks=False)
            pair.reader.send(line.split(), ["XLEN", "s"])
            for _ in range(before):
                pair.go_on()
            is_made = pair.reader.client.unfinished is None
            pair.write(write)
            pair.write("PUBLISH news 7")
            pair.check([b"7"] if number % 2 else [])
            before += 1 + before // 3  # what is behind a hundred slices is as what is behind a few
        assert before > 3, "it is made in slices"


@pytest.mark.parametrize("line", ["XRANGE s - +", "XINFO STREAM s FULL COUNT 0", "KEYS *", "HGETALL h"])
def test_in_a_transaction_they_are_made_whole_and_are_of_their_moment(line):
    pair = Pair(2)
    pair.write("FILL")
    expected = pair.whole.raw(line.split())

    pair.reader.send(["MULTI"], line.split(), ["FLUSHALL"], ["EXEC"])

    assert pair.reader.received() == b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + expected + b"+OK\r\n"


def test_a_long_list_of_keys_has_none_whose_time_has_passed():
    pair = Pair(2)
    pair.write("FILL")
    pair.write("PEXPIRE k5 1")
    pair.wait(1, ticks=False)

    pair.reader.send(["KEYS", "k*"])

    assert sorted(pair.end()[0][0].split()[2::2]) == [b"k%d" % number for number in range(9) if number != 5]


def test_a_page_of_scan_has_every_key_that_is_there_all_the_time():
    pair = Pair(2)
    for number in range(60):
        pair.write(f"SET key{number} v")
    found: list[bytes] = []
    cursor = b"0"
    for turn in range(1, 1_000):
        pair.reader.client.backlog or pair.sliced.engine.run(pair.reader.client, [[b"SCAN", cursor, b"COUNT", b"25"]])
        pair.go_on()
        pair.sliced.do(f"SET new{turn % 7} v")
        pair.sliced.do(f"DEL new{(turn + 3) % 7} key{turn % 10}")
        if not pair.reader.client.backlog:
            cursor, keys = pair.reader.replies()[0]
            found += keys
            if cursor == b"0":
                break

    assert pair.slices > 5
    lasting = sorted(b"key%d" % number for number in range(10, 60))
    assert set(found) >= set(lasting)


@pytest.mark.parametrize(("scan", "fill", "change"), [
    ("HSCAN v {} COUNT 25", "HSET v {} {}", ["HSET v new{} x", "HDEL v new{} f{}"]),
    ("SSCAN v {} COUNT 25", "SADD v {}", ["SADD v new{}", "SREM v new{} f{}"]),
    ("ZSCAN v {} COUNT 25", "ZADD v {1} {0}", ["ZADD v 1 new{}", "ZREM v new{} f{}"]),
])  # fmt: skip
def test_a_page_of_a_value_has_every_element_that_is_there_all_the_time(scan, fill, change):
    pair = Pair(2)
    for number in range(60):
        pair.write(fill.format(f"f{number}", number))
    found: list[bytes] = []
    cursor = b"0"
    for turn in range(1, 1_000):
        if not pair.reader.client.backlog:
            pair.sliced.engine.run(pair.reader.client, [scan.format(cursor.decode()).encode().split()])
        pair.go_on()
        pair.sliced.do(change[0].format(turn % 7))
        pair.sliced.do(change[1].format((turn + 3) % 7, turn % 10))
        if not pair.reader.client.backlog:
            cursor, words = pair.reader.replies()[0]
            elements = words if scan[0] == "S" else words[::2]
            found += elements
            if scan[0] != "S":
                lasting = dict(zip(words[::2], words[1::2], strict=True))
                assert all(lasting[b"f%d" % n] == b"%d" % n for n in range(10, 60) if b"f%d" % n in lasting)
            if cursor == b"0":
                break

    assert pair.slices > 20
    lasting = sorted(b"f%d" % number for number in range(10, 60))
    assert set(found) >= set(lasting)


BEFORE = [
    "PING", "XDEL s 3 4", "XDEL s 15", "XDEL s 16 17", "XTRIM s MAXLEN 30", "XTRIM s MAXLEN 0",
    "XTRIM s MAXLEN = 27 ACKED",
    "XSETID s 40-9", "XACK s g 7", "XCLAIM s g b 0 5 6", "XCLAIM s g c 0 16 17", "XNACK s g FAIL 2 9 FORCE",
    "XADD s 41 f w", "XGROUP SETID s g 12", "XREADGROUP GROUP g c STREAMS s >", "XINFO STREAM s FULL COUNT 0",
    "COPY s t", "RENAME t s",
]  # fmt: skip


def history_both_ways(monkeypatch, lines: list[str]) -> None:
    """Compare the history that is read as a long one with that which is read entry by entry, and what they leave."""
    seen = []
    for least in (3, 10**9):
        monkeypatch.setattr("streamd.commands.stream.group_reads.SLICED_ITEMS_MIN", least)
        session = Session()
        session.do("CONFIG SET stream-node-max-entries 4")
        for line in lines:
            session.say(line)
        session.received()
        for line in ("XREADGROUP GROUP g c STREAMS s 0", "XREADGROUP GROUP g c COUNT 9 STREAMS s 2"):
            session.clock.advance(1)
            session.say(line)
            session.say("XPENDING s g - + 100")
        seen.append(session.received())
    assert seen[0] == seen[1]
    assert b"ERR" not in seen[0]


def test_the_history_shows_what_is_there_whatever_was_deleted_claimed_and_trimmed_before(monkeypatch):
    for first in BEFORE:
        for second in BEFORE:
            history_both_ways(monkeypatch, [*FILL, first, second])


def test_entries_that_have_the_ids_of_trimmed_ones_are_not_taken_for_them(monkeypatch):
    lines = ["XGROUP CREATE s g 0 MKSTREAM", *(f"XADD s {number} f v" for number in range(1, 9))]
    lines += ["XREADGROUP GROUP g c STREAMS s >", "XACK s g 2 4", "XTRIM s MAXLEN 0", "XSETID s 0"]
    history_both_ways(monkeypatch, [*lines, *(f"XADD s {one} f w" for one in ("1", "1-1", "3-1", "3-2", "7-1", "8"))])

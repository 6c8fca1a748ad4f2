"""The cost of topics: filtered reads, readers that wait with a filter, publishing, shared replay."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import redis

from bench.client import ask, load, request
from bench.servers import Target, redis_binary
from streamd.clients.topics import Message, TopicLog
from streamd.stream.search.field_index import NONE_MATCHES, FieldIndex
from streamd.stream.search.patterns import entry_filter
from streamd.stream.search.searching import search
from streamd.stream.stream import Stream

Figures = list[tuple[str, float, str]]  # (what, figure, its unit and what was wanted)

ROUNDS = 3
TAILS = 1_000
_DEVICES = _KINDS = 100  # so 10,000 topics


def _topic(random_: random.Random) -> str:
    kind = random_.randrange(_KINDS)
    return f"devices/d{random_.randrange(_DEVICES)}/{f'k{kind}' if kind else 'temperature'}"


def _entries(count: int) -> Iterator[tuple[str, bytes, str]]:
    """Yield topic, payload and publisher of messages, the same ones each time."""
    chance = random.Random(8)
    for _ in range(count):
        yield _topic(chance), chance.randbytes(64), f"d{chance.randrange(_DEVICES)}"


def _fill(target: Target, count: int) -> None:
    with target.connect() as sock:
        rows = [request("XADD", "s", "*", "t", one[0], "p", one[1], "c", one[2]) for one in _entries(count)]
        load(sock, rows, batch=1000)


def filtered_reads(entries: int) -> Figures:
    """The speed-up of a filtered read over fetching all from redis-server and filtering; and memory."""
    times: dict[str, list[float]] = {}
    kinds = ["streamd", *(["redis-server"] if redis_binary("redis-server") else [])]
    targets = {kind: Target(kind) for kind in kinds}
    try:
        ours = targets["streamd"]
        empty = ours.anonymous_bytes()
        for target in targets.values():
            _fill(target, entries)
        full = ours.anonymous_bytes()
        patterns = ("devices/d7/k3", "devices/+/temperature")
        counts = {pattern: len(_by_server(ours, pattern)) for pattern in patterns}
        memory = (ours.anonymous_bytes() - full) / (full - empty)
        for _ in range(ROUNDS):
            for pattern in patterns:
                times.setdefault(pattern, []).append(_timed(partial(_by_server, ours, pattern)))
                if "redis-server" in targets:
                    wanted = entry_filter(b"t", b"MQTT", pattern.encode()).pattern.matches
                    all_of_it = partial(_by_client, targets["redis-server"], wanted)
                    times.setdefault(f"all: {pattern}", []).append(_timed(all_of_it))
            times.setdefault("#", []).append(_timed(partial(_by_server, ours, "#")))
            times.setdefault("XRANGE", []).append(_timed(partial(_by_client, ours, lambda topic: True)))
        each = {name: median(values) for name, values in times.items()}
        figures: Figures = []
        shape = f"{entries:,} entries"
        for pattern, least in zip(patterns, (20, 5), strict=True):
            figures.append((f"XFILTER {pattern}, {counts[pattern]:,} of {shape}", each[pattern] * 1000, "ms"))
            if f"all: {pattern}" in each:
                ratio = each[f"all: {pattern}"] / each[pattern]
                name = f"  as quick as fetching all from redis-server: {pattern}"
                figures.append((name, ratio, f"x, wanted {least}"))
        figures.append(("XFILTER # as quick as XRANGE", each["XRANGE"] / each["#"], "x, wanted 0.9"))
        figures.append(("index of the topics, of the entries' memory", memory * 100, "%, wanted at most 15"))
        return figures
    finally:
        for target in targets.values():
            target.stop()


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _by_server(target: Target, pattern: str) -> list[object]:
    found: list[object] = []
    last, before = b"0-0", b""
    with redis.Redis(port=target.port) as client:
        while last != before:
            before = last
            words = ("COUNT", 5_000, "FIELD", "t", "MQTT", pattern)
            last, page = client.execute_command("XFILTER", "s", b"(" + last, "+", *words)
            found += [entry for entry in page if entry[1][1]]
    return found


def _by_client(target: Target, wanted: Callable[[bytes], object]) -> list[object]:
    """Fetch all entries, as plain lists, which is quickest, and keep those whose topic is wanted."""
    found: list[object] = []
    last = b"0-0"
    with redis.Redis(port=target.port) as client:
        client.set_response_callback("XRANGE", lambda reply, **_: reply)
        while page := client.execute_command("XRANGE", "s", b"(" + last, "+", "COUNT", 5_000):
            last = page[-1][0]
            found += [entry for entry in page if wanted(entry[1][1])]
    return found


def looked_through(entries: int) -> Figures:
    """The percentage of segments that are searched for one topic of 10,000."""
    stream, first_id = Stream(100, 100, 100), 10**12 << 64
    for number, (topic, payload, publisher) in enumerate(_entries(entries)):
        stream.append(first_id + (number << 64), [b"t", topic.encode(), b"p", payload, b"c", publisher.encode()])
    wanted = entry_filter(b"t", b"MQTT", b"devices/d7/k3")
    verdicts: list[int] = []

    class Watched(FieldIndex):
        def judge(self, segment, known):  # type: ignore[no-untyped-def]
            verdicts.append(super().judge(segment, known))
            return verdicts[-1]

    index = Watched(b"t", stream.log.memory_bytes, stream.last_id)
    for _ in range(2):
        verdicts.clear()
        search(stream.log, index, wanted, 0, stream.last_id, entries, lambda: False)
    through = sum(verdict != NONE_MATCHES for verdict in verdicts)
    return [("segments looked through for one topic of 10,000", through / len(verdicts) * 100, "%, wanted at most 3")]


def waiting_readers(entries: int) -> Figures:
    """Server CPU of a publish while 1,000 readers wait: for other topics, and for this one beside XREAD's wake-ups."""
    with Target("streamd", ("--maxclients", "3000")) as target, target.connect() as sock:
        costs: dict[str, list[float]] = {"nobody": [], "others": [], "all": [], "XREAD": []}
        for _ in range(ROUNDS):
            _publish_cost(target, sock, 1)
            # Those who wait are there both times, first for another stream: to have so many costs a little by itself.
            for kind, key in (("nobody", "elsewhere"), ("others", "s")):
                last = bytes(ask(sock, "XINFO", "STREAM", "s")[7])  # type: ignore[index]
                tails = [target.connect() for _ in range(TAILS)]
                for number, tail in enumerate(tails):
                    words = ("COUNT", 1, "BLOCK", 0, "FIELD", "t", "MQTT", f"devices/+/k{number}")
                    tail.sendall(request("XFILTER", key, b"(" + last, "+", *words))
                _wait_for_tails(sock)
                costs[kind].append(_publish_cost(target, sock, 2_000))
                for tail in tails:
                    tail.close()
            for kind in ("all", "XREAD"):
                costs[kind].append(_wake_cost(target, sock, kind == "all"))
        each = {kind: median(values) for kind, values in costs.items()}
        return [
            ("publish, 1,000 wait for other topics: CPU over nobody waiting", each["others"] / each["nobody"],
             "x, wanted at most 2"),
            ("one XADD wakes 1,000 in XFILTER BLOCK: CPU over XREAD BLOCK", each["all"] / each["XREAD"],
             "x, wanted at most 1"),
        ]  # fmt: skip


def _publish_cost(target: Target, sock, times: int) -> float:  # type: ignore[no-untyped-def]
    before = target.cpu_s()
    for number in range(times):
        ask(sock, "XADD", "s", "*", "t", f"devices/d{number % 100}/temperature", "p", "x" * 64)
    return (target.cpu_s() - before) / times


def _wait_for_tails(sock) -> None:  # type: ignore[no-untyped-def]
    while b"blocked_clients:%d\r\n" % TAILS not in bytes(ask(sock, "INFO", "clients")):  # type: ignore[arg-type]
        pass


def _wake_cost(target: Target, sock, by_filter: bool) -> float:  # type: ignore[no-untyped-def]
    """Return the CPU seconds of one XADD that wakes all who wait, and of their asking again."""
    tails = [target.connect() for _ in range(TAILS)]
    spent = 0.0
    for _ in range(5):
        last = bytes(ask(sock, "XINFO", "STREAM", "s")[7])  # type: ignore[index]
        words = ("COUNT", 1, "BLOCK", 0, "FIELD", "t", "MQTT", "wake/+")
        waiting = request("XREAD", "COUNT", 1, "BLOCK", 0, "STREAMS", "s", last)
        if by_filter:
            waiting = request("XFILTER", "s", b"(" + last, "+", *words)
        for tail in tails:
            tail.sendall(waiting)
        _wait_for_tails(sock)
        before = target.cpu_s()
        ask(sock, "XADD", "s", "*", "t", "wake/up", "p", "x" * 64)
        for tail in tails:
            tail.recv(65536)
        spent += target.cpu_s() - before
    for tail in tails:
        tail.close()
    return spent / 5


def publishing(entries: int) -> Figures:
    """publish_many over the same XADDs in redis-py's pipelines, messages a second, in turn."""
    count = min(entries, 50_000)
    times: dict[str, list[float]] = {"XADDs": [], "publish_many": []}
    with Target("streamd") as target, redis.Redis(port=target.port) as client:
        log = TopicLog.create(client, "telemetry", shards=1)
        messages = [Message(topic, payload, publisher=name) for topic, payload, name in _entries(count)]
        ways: dict[str, Callable[[], object]] = {
            "XADDs": lambda: _pipelined(client, count),
            "publish_many": lambda: log.publish_many(messages),
        }
        for number in range(ROUNDS):
            for way in ways if number % 2 == 0 else reversed(ways):
                times[way].append(_timed(ways[way]))
    ratio = median(plain / many for plain, many in zip(times["XADDs"], times["publish_many"], strict=True))
    return [
        ("publish_many", count / median(times["publish_many"]), "messages/s"),
        ("XADDs in redis-py's pipelines", count / median(times["XADDs"]), "messages/s"),
        ("publish_many as quick as pipelined XADD", ratio, "x, wanted 0.95"),
    ]


def _pipelined(client: redis.Redis, count: int) -> None:
    pipeline = client.pipeline(transaction=False)
    for number, (topic, payload, name) in enumerate(_prepared(count), 1):
        pipeline.execute_command("XADD", "plain", "*", "t", topic, "p", payload, "c", name)
        if number % 1_000 == 0:
            pipeline.execute()
    pipeline.execute()


_rows: dict[int, list[tuple[str, bytes, str]]] = {}


def _prepared(count: int) -> list[tuple[str, bytes, str]]:
    if count not in _rows:
        _rows[count] = list(_entries(count))
    return _rows[count]


def sharing(entries: int) -> Figures:
    """Four members of a shared replay, each a process, over one."""
    count = min(entries, 200_000)
    rates: dict[int, list[float]] = {1: [], 4: []}
    with Target("streamd") as target, redis.Redis(port=target.port) as client:
        log = TopicLog.create(client, "telemetry", shards=4)
        log.publish_many(Message(topic, payload, publisher=name) for topic, payload, name in _entries(count))
        for number in range(ROUNDS):
            for members in rates:
                rates[members].append(_share(target, members, f"share{number}-{members}", count))
    ratio = median(four / one for four, one in zip(rates[4], rates[1], strict=True))
    return [
        ("shared replay, one member", median(rates[1]), "messages/s"),
        ("four members over one", ratio, "x, wanted 1.5"),
    ]


def _share(target: Target, members: int, share: str, count: int) -> float:
    words = [sys.executable, "-m", "bench.topics", str(target.port), share]
    pipe = subprocess.PIPE
    started = [subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) for _ in range(members)]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()  # it has joined
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [json.loads(process.communicate()[0]) for process in started]
    assert sum(taken for taken, _, _ in ends) == count, ends
    return count / (max(end for _, _, end in ends) - min(begin for _, begin, _ in ends))


def _member(port: int, share: str) -> None:
    """Take messages as a member until none has come for a moment; print how many, and when it began and ended."""
    with redis.Redis(port=port) as client, TopicLog.open(client, "telemetry").share(share, "devices/#") as member:
        print("joined", flush=True)
        sys.stdin.readline()
        taken, begin, end = 0, time.time(), time.time()
        while True:
            entries, _ = member.next(1_000)
            if not entries:
                break
            for entry in entries:
                json.dumps({"device": entry.topic.split("/")[1], "bytes": entry.payload.hex()})
            member.ack(entries)
            taken, end = taken + len(entries), time.time()
        print(json.dumps([taken, begin, end]))


TOPICS: tuple[Callable[[int], Figures], ...] = (filtered_reads, looked_through, waiting_readers, publishing, sharing)

if __name__ == "__main__":
    _member(int(sys.argv[1]), sys.argv[2])

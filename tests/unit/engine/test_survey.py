"""The survey of all streams, and the metrics made of it: what they say, and how much work each slice of them is."""

import random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamd.base.histogram import BOUNDS_US, Histogram
from streamd.data import listing as listing_module
from streamd.engine import survey as survey_module
from streamd.engine.survey import GROUPS_MAX, WORK_PER_SLICE, Survey, Totals, survey
from streamd.net.exposition import SAMPLES_PER_SLICE, expose
from streamd.net.measures import Measures
from tests.session import Session


class Host:
    """A server without sockets."""

    def __init__(self, session: Session) -> None:
        self.engine = session.engine
        self.measures = Measures()


def metrics(session: Session) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    pieces: list[str] = []
    for _ in expose(Host(session), pieces.append):
        pass
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families("".join(pieces)):
        for sample in family.samples:
            rows = found.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in rows
            rows[labels] = sample.value
    return found


def fill(session: Session, streams: int, seed: int = 1) -> None:
    chance = random.Random(seed)
    for number in range(streams):
        key = f"s{number}"
        for iid in range(chance.randrange(1, 6)):
            session.do(f"XADD {key} IDMP p{iid % 2} i{iid} * f {'v' * chance.randrange(50)}")
        if chance.random() < 0.3:
            session.do(f"XADD {key} IDMP p0 i0 * f v")
        for group in range(chance.randrange(4)):
            session.do(f"XGROUP CREATE {key} g{group} 0")
            session.do(f"XREADGROUP GROUP g{group} ann COUNT 2 STREAMS {key} >")
    session.do("SET other value")


def taken(session: Session, **arguments: int) -> tuple[Survey, list[int]]:
    found = Survey()
    slices = list(survey(session.state.keyspace, found, **arguments))
    return found, slices


def by_xinfo(session: Session, key: str) -> Totals:
    info = dict(zip(*[iter(session.do(f"XINFO STREAM {key}"))] * 2, strict=True))
    groups = [dict(zip(*[iter(row)] * 2, strict=True)) for row in session.do(f"XINFO GROUPS {key}")]
    return Totals(
        streams=1,
        entries=info[b"length"],
        bytes=session.do(f"MEMORY USAGE {key}"),
        entries_added=info[b"entries-added"],
        groups=info[b"groups"],
        pending=sum(group[b"pending"] for group in groups),
        producers=info[b"pids-tracked"],
        iids=info[b"iids-tracked"],
        duplicates=info[b"iids-duplicates"],
    )


def test_sums_and_names_are_what_xinfo_says_of_each_stream(engine):
    fill(engine, 40)
    found, _ = taken(engine, largest=10)
    each = {f"s{number}": by_xinfo(engine, f"s{number}") for number in range(40)}
    for field in set(Totals.__slots__) - {"bytes"}:
        assert getattr(found.totals, field) == sum(getattr(one, field) for one in each.values()), field
        named = sum(getattr(facts.totals, field) for facts in found.largest)
        assert getattr(found.rest, field) == getattr(found.totals, field) - named, field
    assert len(found.largest) == 10
    for facts in found.largest:
        wanted = each.pop(facts.key.decode())
        assert [getattr(facts.totals, field) for field in ("entries", "pending", "iids", "duplicates")] == [
            wanted.entries, wanted.pending, wanted.iids, wanted.duplicates
        ]  # fmt: skip
    sizes = [facts.totals.bytes for facts in found.largest]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] >= max(one.bytes for one in each.values()) - 200  # MEMORY USAGE counts the key, too


def test_no_slice_is_more_work_than_its_measure_whatever_there_is(engine, monkeypatch):
    fill(engine, 300)
    engine.do(f"XADD many * f {chr(118) * 5000}")
    for number in range(3 * WORK_PER_SLICE):
        engine.do(f"XGROUP CREATE many g{number} 0")
    for number in range(WORK_PER_SLICE * 2):
        engine.do(f"SET k{number} v")
    looked = []
    add = survey_module._add

    def counting(*arguments):
        looked.append(1)
        for one in add(*arguments):
            looked.append(1)
            yield one

    monkeypatch.setattr(survey_module, "_add", counting)
    found = Survey()
    slices = []
    for said in survey(engine.state.keyspace, found):
        assert len(looked) <= said + 1
        slices.append(said)
        looked.clear()
    assert max(slices) <= WORK_PER_SLICE + 1
    assert len(slices) > 5
    assert len(next(facts for facts in found.largest if facts.key == b"many").groups) == GROUPS_MAX


def test_of_many_groups_those_with_the_most_pending_entries_are_named(engine):
    engine.do("XADD s * f v")
    engine.do("XADD s * f v")
    for number in range(2 * GROUPS_MAX):
        engine.do(f"XGROUP CREATE s g{number} 0")
    for number in range(5, 8):
        engine.do(f"XREADGROUP GROUP g{number} ann COUNT {number - 4} STREAMS s >")
    (facts,) = taken(engine)[0].largest
    assert [(group.name, group.pending) for group in facts.groups[:3]] == [(b"g7", 2), (b"g6", 2), (b"g5", 1)]


def test_streams_may_come_go_and_change_between_two_slices(engine):
    fill(engine, 400)
    found = Survey()
    for number, _ in enumerate(survey(engine.state.keyspace, found)):
        for key in range(number * 60, number * 60 + 60):
            engine.do(f"DEL s{key}")
            engine.do(f"SET s{key + 200} other")
            engine.do(f"XADD new{key} * f v")
    assert found.totals.streams <= 400


INTERPRETED = pytest.mark.interpreted(reason="they change constants of a compiled module")


def listing(engine, monkeypatch, between=lambda: None):
    """Return what a survey of lists of 50 keys finds, with how many keys it lists in each slice."""
    monkeypatch.setattr(survey_module, "KEYS_PER_SLICE", 50)
    monkeypatch.setattr(listing_module, "KEYS_PER_SLICE", 50)
    islice, listed, slices = listing_module.islice, [0], []

    def counting(keys, count):
        part = list(islice(keys, count))
        listed[0] += len(part)
        return part

    monkeypatch.setattr(listing_module, "islice", counting)
    found = Survey()
    for _ in survey(engine.state.keyspace, found):
        slices.append(listed[0])
        listed[0] = 0
        between()
    return found, slices


@INTERPRETED
def test_no_slice_lists_more_keys_than_its_measure(engine, monkeypatch):
    fill(engine, 430)
    keys = engine.do("DBSIZE")
    found, slices = listing(engine, monkeypatch)
    assert found.totals.streams == keys - 1
    assert (max(slices), sum(slices)) == (50, keys)
    assert found.totals.entries == sum(engine.do(f"XLEN s{number}") for number in range(430))


@INTERPRETED
def test_keys_that_come_once_have_the_list_begun_again(engine, monkeypatch):
    fill(engine, 400)
    streams = engine.do("DBSIZE") - 1
    lines = iter(["PING", "XADD new * f v", "PING", "PING", "DEL s7 s8"])
    found, slices = listing(engine, monkeypatch, lambda: engine.do(next(lines, "PING")))
    assert found.totals.streams == streams - 1
    assert max(slices) == 50


@INTERPRETED
def test_where_keys_come_all_the_time_they_are_listed_in_halves(engine, monkeypatch):
    fill(engine, 400)
    streams, come = engine.do("DBSIZE") - 1, iter(range(10_000))
    found, slices = listing(engine, monkeypatch, lambda: engine.do(f"XADD new{next(come)} * f v"))
    assert streams <= found.totals.streams <= streams + listing_module.LISTS_MAX + 1
    assert 50 < max(slices) <= 402 // 2 + listing_module.LISTS_MAX + 1
    assert found.totals.entries >= sum(engine.do(f"XLEN s{number}") for number in range(400))


@INTERPRETED
def test_where_keys_go_all_the_time_those_that_stay_are_found(engine, monkeypatch):
    fill(engine, 400)
    gone = iter(range(400))
    found, _ = listing(engine, monkeypatch, lambda: engine.do(f"DEL s{next(gone)}"))
    assert 380 <= found.totals.streams <= 400


@INTERPRETED
def test_where_as_many_keys_come_as_go_those_that_stay_are_found(engine, monkeypatch):
    fill(engine, 400)
    streams, turn = engine.do("DBSIZE") - 1, iter(range(400))

    def between():
        number = next(turn)
        engine.do(f"DEL s{number}")
        engine.do(f"XADD new{number} * f v")

    found, slices = listing(engine, monkeypatch, between)
    assert streams - len(slices) <= found.totals.streams <= streams + len(slices)


@INTERPRETED
def test_keys_are_listed_again_where_their_table_was_made_anew(engine, monkeypatch):
    fill(engine, 300)
    keys = engine.do("DBSIZE")
    database, made = engine.state.keyspace[0], iter([dict])

    def between():
        database.values = next(made, lambda values: values)(database.values)

    found, slices = listing(engine, monkeypatch, between)
    assert found.totals.streams == keys - 1
    assert sum(slices) > keys


def test_writing_the_metrics_is_in_slices_too(engine):
    fill(engine, 150)
    pieces: list[str] = []
    slices = list(expose(Host(engine), pieces.append))
    assert max(slices) <= max(SAMPLES_PER_SLICE, WORK_PER_SLICE + 1)
    assert max(piece.count("\n") for piece in pieces) <= SAMPLES_PER_SLICE + 2
    text = "".join(pieces)
    headers = [line for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(headers) == len(set(headers))


def test_the_metrics_say_what_the_server_knows(engine):
    fill(engine, 120)
    engine.do("XADD orders IDMP svc-7 order-1 * f v")
    for number in range(500):
        engine.do(f"XADD orders * n {number}")
    engine.do("XADD orders IDMP svc-7 order-1 * f v")
    engine.do("XGROUP CREATE orders billing 0")
    engine.do("XREADGROUP GROUP billing ann COUNT 5 STREAMS orders >")
    engine.do("NOCOMMAND")
    found = metrics(engine)
    stream = (("db", "db0"), ("stream", "orders"))
    group = (("db", "db0"), ("group", "billing"), ("stream", "orders"))
    assert found["redis_up"] == {(): 1}
    assert found["redis_stream_length"][stream] == 501
    assert found["redis_stream_groups"][stream] == 1
    assert found["streamd_stream_entries_added_total"][stream] == 501
    assert found["streamd_stream_duplicates_total"][stream] == 1
    assert found["streamd_stream_producers"][stream] == 1
    assert found["redis_stream_group_messages_pending"][group] == 5
    assert found["redis_stream_group_lag"][group] == 496
    assert found["redis_stream_group_consumers"][group] == 1
    assert len(found["redis_stream_length"]) == 100
    assert found["streamd_all_streams"] == {(): 121}
    assert found["streamd_rest_streams"] == {(): 21}
    assert found["redis_db_keys"] == {(("db", "db0"),): 122}
    assert found["redis_commands_total"][(("cmd", "xgroup|create"),)] >= 1
    assert found["redis_errors_total"][(("err", "ERR"),)] == engine.state.stats.errors["ERR"]
    assert found["streamd_turn_seconds_count"] == {(): 0}


@pytest.mark.parametrize("key", [b'"', b"\\", b"a\nb", b"\xff\x00", "\N{EURO SIGN}".encode(), b"x" * 1000])
def test_any_key_is_a_label(engine, key):
    engine.execute([b"XADD", key, b"*", b"f", b"v"])
    (labels,) = metrics(engine)["redis_stream_length"]
    assert len(dict(labels)["stream"]) <= 200


def test_a_histogram_counts_each_time_once_in_rising_buckets():
    histogram = Histogram()
    for took_us in (0, 10, 10.5, 999, 1_000, 1_000_000, 10**9):
        histogram.observe(took_us)
    buckets, sum_s = histogram.buckets()
    rows = dict(buckets)
    assert (rows["1e-05"], rows["2.5e-05"], rows["0.001"], rows["1"], rows["10"], rows["+Inf"]) == (2, 3, 5, 6, 6, 7)
    assert sum_s == pytest.approx(1001.0020195)
    assert len(buckets) == len(BOUNDS_US) + 1

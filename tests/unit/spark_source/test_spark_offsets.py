"""Offsets: partitions are a pure function of two of them."""

import json

import pytest

from spark_source import ids
from spark_source.errors import StreamdError
from spark_source.reading.offsets import EARLIEST, Mark, Range, offset_json, parse_offset, ranges


def through_json(offset: dict[str, Mark]) -> dict[str, Mark]:
    return parse_offset(json.loads(json.dumps(offset_json(offset))))


@pytest.mark.parametrize(
    "mark",
    [
        EARLIEST,
        Mark("5-1", None),
        Mark("9-0", 12, (("5-0", 7), ("9-0", 5)), from_id="1-0"),
        Mark("9-0", 12, (("9-0", 5),), from_id="1-0", together=25_000),
        Mark("9-0", 12, (), from_id="1-0", lost=4),
        Mark("9-0", 12, (("9-0", 5),), from_id="1-0", head="2-0", about="total", behind=("9-1", 30)),
    ],
)
def test_an_offset_survives_json(mark: Mark) -> None:
    assert through_json({"s": mark}) == {"s": mark}


def test_the_parts_of_a_range_follow_each_other() -> None:
    end = {"s": Mark("9-0", 12, (("5-0", 7), ("9-0", 5)), from_id="1-0")}

    assert ranges({"s": Mark("1-0", 0)}, end) == [Range("s", "1-0", "5-0", 7), Range("s", "5-0", "9-0", 5)]


def test_the_parts_of_an_estimate_say_what_the_stream_began_with() -> None:
    end = {"s": Mark("9-0", 5, (("9-0", 5),), from_id="1-0", head="2-0", about="parts")}

    assert ranges({"s": Mark("1-0", 0)}, end) == [Range("s", "1-0", "9-0", 5, "2-0")]


def test_a_stream_that_did_not_move_has_no_parts() -> None:
    moved = Mark("9-0", 5, (("9-0", 5),), from_id="1-0")
    waits = Mark("7-0", 3, (("7-0", 3),), from_id="2-0")
    start = {"a": Mark("1-0", 0), "b": waits}

    assert ranges(start, {"a": moved, "b": Mark("7-0", 3)}) == [Range("a", "1-0", "9-0", 5)]
    assert ranges(start, start) == []


def test_the_parts_do_not_depend_on_a_start_that_is_not_written_down() -> None:
    """Spark asks for the start of a first batch again after a restart; `latest` is another place by then."""
    end = {"s": Mark("9-0", 5, (("9-0", 5),), from_id="4-0")}

    assert ranges({"s": Mark("20-0", 9)}, end) == [Range("s", "4-0", "9-0", 5)]


def test_a_new_stream_starts_where_its_end_says() -> None:
    assert ranges({}, {"s": Mark("9-0", 5, (("9-0", 5),), from_id="0-0")}) == [Range("s", "0-0", "9-0", 5)]


@pytest.mark.parametrize("raw", [{"s": 5}, {"s": {"id": "x", "n": 1}}, {"s": {"n": 1}}, {"s": {"id": "1-0"}}])
def test_offsets_of_another_source_are_refused(raw: dict) -> None:
    with pytest.raises(StreamdError, match="use another checkpointLocation"):
        parse_offset(raw)


@pytest.mark.parametrize(
    ("entry_id", "before"),
    [("5-3", "5-2"), ("5-0", f"4-{2**64 - 1}"), ("0-1", "0-0"), ("0-0", "0-0"), (b"1-0", f"0-{2**64 - 1}")],
)
def test_the_id_before_an_id(entry_id: str, before: str) -> None:
    assert ids.before(entry_id) == before


@pytest.mark.parametrize(
    "raw",
    [
        5,
        None,
        "5",
        [1],
        {"logOffset": 3},
        {"orders": {"0": 17}},
        {"shard-0": {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "49\n6"}},
        {"sourceVersion": 1, "reservoirId": "8f", "index": -1, "isStartingVersion": False},
    ],
)
def test_the_checkpoint_of_another_source_ends_in_one_line(raw: object) -> None:
    """As of the sources rate, file, Kafka, Kinesis and Delta."""
    with pytest.raises(StreamdError, match=r"is not one of this source .*: use another checkpointLocation$") as caught:
        parse_offset(raw)  # type: ignore[arg-type]

    assert "\n" not in str(caught.value)

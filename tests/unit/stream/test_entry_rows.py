"""The records of entries of several streams, taken as a run, are those of each."""

import itertools

import pytest

from streamd.data.entry_record import EntryRows, entry_words
from streamd.data.records import ColumnsRecord, Record

KEYS = (b"s", b"t")
FIELDS = ((b"f", b"1"), (b"f", b"2"), (b"g", b"1"), (b"f", b"1", b"g", b"2"))


def one_by_one(records: list[Record | ColumnsRecord]) -> list[Record]:
    """Return records, those of runs among them."""
    flat: list[Record] = []
    for record in records:
        flat += record.records() if isinstance(record, ColumnsRecord) else [record]
    return flat


@pytest.mark.parametrize("named", [False, True], ids=["plain", "named"])
def test_the_records_of_rows_are_those_of_each_entry(named: bool) -> None:
    for count in range(5):
        for chosen in itertools.product(itertools.product(KEYS, FIELDS), repeat=count):
            rows, wanted = EntryRows(), []
            for at, (key, fields) in enumerate(chosen):
                row = (key, b"5-%d" % at, fields, b"p" if named else b"", b"%d" % at if named else b"")
                rows.add(*row)
                wanted.append((3, entry_words(*row)))
            records = rows.records(3)
            assert one_by_one(records) == wanted
            if count > 1 and len({len(fields) for _, fields in chosen}) == 1:
                assert [type(record) for record in records] == [ColumnsRecord]

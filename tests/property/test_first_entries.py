"""What is read of a log, wherever it begins and ends and whatever was deleted, is what a list of its entries says."""

import random

import pytest

from streamd.stream.entry_id import ID_MAX, make_id
from streamd.stream.log.entry_log import Log
from streamd.stream.log.runs import ids_in
from tests.entry_ways import way
from tests.property.log_model import LogModel, encode_entry

__all__ = ["way"]

STEPS = {
    "a millisecond each": lambda r: (1, 0),
    "counting up": lambda r: (0, 1),
    "bursts": lambda r: (r.randrange(3), 1),
    "gaps": lambda r: (r.choice([1, 1, 1, 5, 2_000]), 0),
    "seqs with gaps": lambda r: (r.randrange(2), r.randrange(1, 300)),
    "far apart": lambda r: (r.choice([1, 1 << 34]), r.choice([0, 1 << 34])),
}
FIELDS = {
    "alike": lambda r, n: [b"f", b"x" * 8],
    "lengths differ": lambda r, n: [b"f", b"y" * r.randrange(300)],
    "two fields": lambda r, n: [b"a", b"%d" % n, b"bb", b"z" * r.randrange(40)],
    "names differ": lambda r, n: [b"f%d" % (n % 2), b"v"] * r.randrange(1, 3),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
def test_the_first_entries_of_any_range_are_those_of_a_list(step, fields, way):
    source = random.Random(11)
    for node_max_entries in (1, 7, 30, 100):
        log, model = Log(node_max_entries), LogModel(node_max_entries)
        ms, seq = source.choice([0, 990, 10**12, 1 << 62]), source.choice([0, 8, 99, 1 << 62])
        for number in range(source.randrange(1, 250)):
            more_ms, more_seq = step(source)
            ms, seq = ms + more_ms, seq + more_seq
            entry = make_id(ms, seq), fields(source, number)
            log.append(*entry)
            model.append(*entry)
        for _ in range(source.choice([0, 3, 60])):
            if model.entries():
                gone_id = source.choice(model.entries())[0]
                assert log.delete(gone_id)
                assert model.delete(gone_id)
        for _ in range(15):
            check_a_range(log, model, source)


def check_a_range(log, model, source):
    ids = [entry_id for entry_id, _ in model.entries()] or [0]

    def near():
        return max(0, source.choice(ids) + source.choice([0, 0, 1, -1, 1 << 64, -1 << 64]))

    start, end, reverse = near(), source.choice([ID_MAX, near()]), source.random() < 0.2
    count = source.choice([None, 0, 1, 3, 10, 16, 17, 50])
    wanted = model.entries(start, end, reverse)[:count]
    found = None if reverse else []
    entries, parts = log.encode_parts(start, end, count, reverse, found)
    assert (entries, b"".join(parts)) == (len(wanted), b"".join(encode_entry(*entry) for entry in wanted))
    assert reverse or ids_in(found) == [entry_id for entry_id, _ in wanted]

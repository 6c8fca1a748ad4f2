"""Any history of commands gives the same replies with hardly any memory for entries as with all of it.

`make cold-property MINUTES=60` runs more of them.
"""

import logging
from collections import Counter

import pytest

from tests.cold.property.__main__ import NEEDED
from tests.cold.property.histories import as_text, replay, shorten, write_and_run
from tests.cold.property.pair import Step

pytestmark = pytest.mark.interpreted(reason="replaces numbers and handlers")
SEEDS = range(1, 9)


def test_histories_give_the_same_with_hardly_any_memory_for_entries():
    counts: Counter[str] = Counter()
    logging.disable()
    try:
        for seed in SEEDS:
            outcome = write_and_run(seed, 200)
            assert outcome.pair is not None
            counts.update(outcome.pair.counts)
            assert outcome.difference is None, (
                f"seed {seed}\n{as_text(shorten(seed, outcome.history))}\n{outcome.difference}"
            )
    finally:
        logging.disable(logging.NOTSET)
    assert all(counts[name] for name in NEEDED), counts
    assert counts["absences"] > 40
    assert counts["requests"] > 2_000


def test_a_server_that_loses_a_deletion_is_found(monkeypatch):
    monkeypatch.setattr("streamd.cold.merging._further", lambda gone, without: None)
    logging.disable()
    try:
        found = next(outcome for seed in range(1, 30) if (outcome := write_and_run(seed, 200)).difference is not None)
    finally:
        logging.disable(logging.NOTSET)
    assert replay(found.seed, found.history).difference is not None


def test_a_history_is_written_down_in_lines():
    steps = [
        Step(1, "send", (0, [[b"XADD", b"s", b"1-0", b"f", b"a" * 40]])),
        Step(2, "time", 10),
        Step(3, "burst", [(0, [[b"XLEN", b"s"]]), (1, []), (2, [[b"XINFO", b"STREAM", b"s"]])]),
        Step(4, "evict"),
    ]
    expected = "a: XADD s 1-0 f aaaaaaaa...\n(time 10)\nat once:\n  a: XLEN s\n  c: XINFO STREAM s\n(evict)"
    assert as_text(steps) == expected

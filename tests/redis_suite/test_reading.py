"""What `make redis-tests` reads: the list of skipped tests, and what a run says."""

import re

from tests.redis_suite.__main__ import SKIPPED, UNITS, read_outcome, read_skips

SAID = """
[\x1b[0;32;49mok\x1b[0m]: Big Hash table (12 ms)
[\x1b[0;33;49mskip\x1b[0m]: Hash ziplist of various encodings
[ignore]: Tag: needs:repl denied
[\x1b[0;31;49merr\x1b[0m]: HGET against the small list in tests/unit/type/hash.tcl
Expected 'a' to be equal to 'b'
[1/1 done]: unit/type/hash (5 seconds)

                   The End
!!! WARNING The following tests failed:

*** [err]: HGET against the small list in tests/unit/type/hash.tcl
"""


def test_a_run_is_read_with_its_colours_and_each_failure_once():
    outcome = read_outcome(SAID)
    assert outcome.passed == ["Big Hash table"]
    assert outcome.skipped == ["Hash ziplist of various encodings"]
    assert outcome.failed == ["HGET against the small list in tests/unit/type/hash.tcl"]
    assert outcome.ignored == ["Tag: needs:repl denied"]


def test_a_run_that_says_nothing_has_failed():
    assert read_outcome("couldn't open socket: address already in use").failed == ["no test ran"]


def test_every_skipped_test_is_of_a_file_that_is_run_and_has_a_reason():
    text = SKIPPED.read_text()
    skips = read_skips(text)
    assert skips.tags == []
    assert set(skips.tests) <= set(UNITS)
    assert all(re.match(r"# .", block) and "\n" in block for block in text.strip().split("\n\n")[1:])

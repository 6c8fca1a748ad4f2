"""A growing string against bytes."""

from hypothesis import given
from hypothesis import strategies as st

from streamd.data import growing
from streamd.data.growing import GrowingString

WRITE = st.tuples(st.integers(0, 60), st.binary(min_size=1, max_size=30))
STEPS = st.lists(st.one_of(WRITE, st.binary(max_size=20)), max_size=12)


@given(base=st.binary(max_size=50), steps=STEPS, cuts=st.lists(st.tuples(st.integers(0, 120), st.integers(0, 120))))
def test_it_is_what_bytes_would_be(base, steps, cuts):
    before = growing._PAGE_BYTES
    growing._PAGE_BYTES = 8
    try:
        string, expected = GrowingString(base), base
        for step in steps:
            if isinstance(step, bytes):
                string.append(step)
                expected += step
            else:
                offset, part = step
                string.overwrite(offset, part)
                expected = expected[:offset].ljust(offset, b"\0") + part + expected[offset + len(part) :]
            assert len(string) == len(expected)
        assert string.whole() == expected
        assert string.base == base
        for start, end in cuts:
            start, end = min(start, len(expected)), min(end, len(expected))
            if start < end:
                assert string.part(start, end) == expected[start:end]
    finally:
        growing._PAGE_BYTES = before

"""The replies of many XADDs, written together: those of each."""

from hypothesis import example, given
from hypothesis import strategies as st

from streamd.commands.stream.xadd_replies import replies_of

MILLISECONDS = st.one_of(st.integers(1_795_248_000_000, 1_795_248_000_009), st.sampled_from([7, 2**64 - 1]))
SEQS = st.one_of(st.integers(0, 120), st.integers(990, 1010), st.sampled_from([2**64 - 1]))
IDS = st.builds(lambda ms, seq: ms << 64 | seq, MILLISECONDS, SEQS)
RUNS = st.builds(lambda first, count: [min(first + at, 2**128 - 1) for at in range(count)], IDS, st.integers(1, 20))
FEW = st.lists(st.sampled_from([1_795_248_000_000 << 64 | 9, 1_795_248_000_000 << 64 | 10]), min_size=1, max_size=30)
SOME = st.builds(lambda ms, seq: ms << 64 | seq, st.integers(10**12, 10**12 + 3), st.integers(0, 999))
MANY = st.lists(SOME, min_size=48, max_size=80)


@example([10**12 << 64, (10**12 - 1) << 64 | 5] * 30)
@example([10**12 << 64 | 1000, 10**12 << 64 | 999, 10**12 << 64] * 30)
@given(
    st.one_of(
        st.lists(IDS, min_size=1, max_size=40),
        MANY,
        FEW,
        st.lists(RUNS, min_size=1).map(lambda runs: [i for run in runs for i in run]),
    )
)
def test_many_replies_are_the_replies_of_each(ids):
    texts = [b"%d-%d" % (entry_id >> 64, entry_id % 2**64) for entry_id in ids]
    assert replies_of(ids) == b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in texts])

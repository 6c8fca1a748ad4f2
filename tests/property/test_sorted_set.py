"""A sorted set of any size is, for whoever asks it, a list of rows that is sorted again after each change."""

from bisect import bisect_left, bisect_right
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from streamd.data.sorted_set import LISTED_MEMBERS_MAX, SortedSet

scores = st.sampled_from([-inf, -2.5, -0.0, 0.0, 1.0, 1.0000000000000002, 7.0, 1e300, inf])
members = st.one_of(st.sampled_from([b"", b"a", b"a\0", b"b", b"\xff"]), st.integers(0, 40).map(lambda n: b"%d" % n))
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), members, scores),
        st.tuples(st.just("put"), members, scores),
        st.tuples(st.just("drop"), members),
        st.tuples(st.just("drop_places"), st.integers(0, 12), st.integers(0, 12)),
        st.tuples(st.just("copy")),
    ),
    max_size=60,
)


@given(st.sampled_from([0, 1, LISTED_MEMBERS_MAX - 2, LISTED_MEMBERS_MAX + 5]), changes)
def test_a_sorted_set_is_a_sorted_list_of_rows(size, history):
    value, model = SortedSet(), {}
    for number in range(size):
        value.put(b"filler %d" % number, float(number % 7))
        model[b"filler %d" % number] = float(number % 7)
    for kind, *given_ in history:
        if kind == "put":
            value.put(*given_)
            model[given_[0]] = given_[1]
        elif kind == "drop":
            assert value.drop(*given_) == (model.pop(given_[0], None) is not None)
        elif kind == "drop_places":
            gone = [member for _, member in sorted((score, member) for member, score in model.items())]
            gone = gone[given_[0] : given_[1]]
            assert value.drop_places(*given_) == gone
            for member in gone:
                del model[member]
        else:
            before, value = value, value.copy()
            assert before.is_listed == value.is_listed
        rows = sorted((score, member) for member, score in model.items())
        ordered = [score for score, _ in rows]
        assert value.scores == model
        assert len(value) == len(rows)
        assert value.members(0, len(rows)) == [member for _, member in rows]
        assert value.members(1, 4) == [member for _, member in rows[1:4]]
        for score in (-inf, 0.0, 1.0, 3.5, inf):
            assert value.below(score) == bisect_left(ordered, score)
            assert value.up_to(score) == bisect_right(ordered, score)
        for place, (_, member) in enumerate(rows[:20]):
            assert value.rank(member) == place

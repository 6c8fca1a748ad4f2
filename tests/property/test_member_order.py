"""The order of a large sorted set is that of a list which is sorted again after each change, whatever waits in it."""

from bisect import bisect_left

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.data import member_order
from streamd.data.member_order import MemberOrder
from tests.examples import examples

scores = st.sampled_from([-1.0, 0.0, 1.0, 2.0, 2.5, 1e300])
members = st.integers(0, 45).map(lambda number: b"m%02d" % number)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("add"), members, scores),
        st.tuples(st.just("add"), members, scores),
        st.tuples(st.just("add last"), members, st.sampled_from([0.0, 1.0])),
        st.tuples(st.just("remove"), members),
        st.tuples(st.just("add again"), members),
        st.tuples(st.just("remove places"), st.integers(0, 30), st.integers(0, 12)),
        st.tuples(st.just("look"), members, scores),
        st.tuples(st.just("read"), st.integers(-1, 45), st.integers(0, 12)),
    ),
    max_size=80,
)


@pytest.fixture(scope="module", autouse=True)
def small_parts():
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (
            ("PART_MAX", 8), ("PART_MIN", 3), ("NEW_MAX", 5), ("WAITING_MAX", 4), ("FEW_MAX", 2), ("ALONE_MAX", 1),
            ("_GROUP_BITS", 1),
        ):  # fmt: skip
            patch.setattr(member_order, name, size)
        yield


def _check(order, model):
    """Compare all that can be asked with the model. (What was not asked for by then is put in order by this.)"""
    rows = sorted((score, member) for member, score in model.items())
    assert order.members(0, len(rows)) == [member for _, member in rows]
    assert order.members(0, len(rows) + 5) == [member for _, member in rows]
    for place, (score, member) in enumerate(rows):
        assert order.below(score, member) == place
        assert order.below(score) == bisect_left(rows, (score,))


@settings(max_examples=examples(600), deadline=None)
@given(st.sampled_from([0, 3, 20, 40]), changes)
def test_an_order_is_a_sorted_list(size, history):
    model = {b"m%02d" % number: float(number % 3) for number in range(size)}
    order = MemberOrder((score, member) for member, score in model.items())
    last = 10.0
    for kind, *given_ in history:
        if kind.startswith("add"):
            member = given_[0]
            before = model.pop(member, None)
            if before is not None:
                order.remove(member, before)
            if kind == "add last":
                last += given_[1]
                score = last
            else:
                score = given_[1] if kind == "add" else before or 0.0
            model[member] = score
            order.add(member, score)
        elif kind == "remove":
            if given_[0] in model:
                order.remove(given_[0], model.pop(given_[0]))
        else:
            rows = sorted((score, member) for member, score in model.items())
            if kind == "remove places":
                start, count = given_
                order.remove_places(start, start + count)
                for _, member in rows[start : start + count]:
                    del model[member]
            elif kind == "read":
                start = given_[0] if given_[0] >= 0 else max(0, len(rows) - 3)
                assert order.members(start, start + given_[1]) == [one for _, one in rows[start : start + given_[1]]]
            else:
                member, score = given_
                assert order.below(score, member) == bisect_left(rows, (score, member))
                assert order.below(score) == bisect_left(rows, (score,))
    _check(order, model)


@pytest.mark.parametrize("looks_each_time", [False, True])
def test_members_in_any_order_leave_no_part_too_large_or_too_small(looks_each_time):
    order, model = MemberOrder([]), {}
    for number in range(3_000):
        member, score = b"m%04d" % (number * 7 % 3_000), float(number * 1_237 % 500)
        model[member] = score
        order.add(member, score)
        if looks_each_time:
            order.below(score)
    _check(order, model)
    assert max(order._sizes) <= member_order.PART_MAX
    assert len(order._sizes) <= 3_000 // (member_order.PART_MAX // 4)
    for member in sorted(model)[::-1][:2_990]:
        order.remove(member, model.pop(member))
    _check(order, model)
    assert len(order._sizes) <= 10


@pytest.mark.parametrize("start", range(26))
def test_a_part_that_is_split_by_who_reads_it_is_read_from_the_right_place(start):
    model = {b"m%02d" % number: float(number) for number in range(20)}
    order = MemberOrder((score, member) for member, score in model.items())
    for numbers in ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)):
        for number in numbers:
            model[b"new %.1f" % number] = 5 + number
            order.add(b"new %.1f" % number, 5 + number)
        rows = sorted((score, member) for member, score in model.items())
        assert order.members(start, start + 9) == [member for _, member in rows[start : start + 9]]


def test_a_member_that_comes_again_with_one_before_it_is_found_again():
    for number in range(1, 20):
        model = {b"m%02d" % number: float(number) for number in range(20)}
        order = MemberOrder((score, member) for member, score in model.items())
        again = b"m%02d" % number
        order.remove(again, model[again])
        order.add(again, model[again])
        model[b"before"] = number - 0.5
        order.add(b"before", number - 0.5)
        _check(order, model)
        order.remove(again, model.pop(again))
        _check(order, model)

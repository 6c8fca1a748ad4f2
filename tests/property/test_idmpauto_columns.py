"""IDMPAUTO's iids of many entries at once: those that each entry has by itself."""

from hypothesis import given
from hypothesis import strategies as st

from streamd.idmp.digest import idmpauto_iid, idmpauto_iids

WORDS = st.one_of(st.binary(max_size=12), st.integers(0, 3000).map(bytes))


@st.composite
def entries(draw):
    """Return field names, and some entries' values, one entry's behind the other's."""
    names = draw(st.lists(WORDS, min_size=1, max_size=7))
    count = draw(st.one_of(st.integers(1, 12), st.integers(120, 260)))
    pool = draw(st.lists(WORDS, min_size=1, max_size=8))
    picked = draw(st.randoms(use_true_random=False))
    return tuple(names), [picked.choice(pool) for _ in range(count * len(names))]


@given(entries())
def test_many_entries_have_the_iids_of_each(drawn):
    names, values = drawn
    width = len(names)
    each = []
    for at in range(0, len(values), width):
        words = [word for pair in zip(names, values[at : at + width], strict=True) for word in pair]
        each.append(idmpauto_iid(words))
    assert [*idmpauto_iids(names, values)] == each

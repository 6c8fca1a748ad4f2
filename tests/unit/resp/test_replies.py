"""Replies are cut where they end."""

from hypothesis import given
from hypothesis import strategies as st

from streamd.resp.reply_ends import deal_replies, split_replies


@given(st.lists(st.lists(st.sampled_from([b"", b"1-0", b"1-1", b"10-0", b"\x00*:%"]), min_size=1), min_size=1))
def test_bulks_are_dealt_out_as_they_were_counted(groups):
    pieces = [b"".join(b"$%d\r\n%b\r\n" % (len(text), text) for text in group) for group in groups]
    assert deal_replies(b"".join(pieces), [len(group) for group in groups]) == pieces
    assert [len([*split_replies(piece)]) for piece in pieces] == [len(group) for group in groups]


@given(st.lists(st.integers(1, 40), min_size=1), st.sampled_from([b"", b"1-0", b"1700000000000-12"]))
def test_bulks_of_one_size_too(counts, text):
    reply = b"$%d\r\n%b\r\n" % (len(text), text)
    assert deal_replies(reply * sum(counts), counts) == [reply * count for count in counts]

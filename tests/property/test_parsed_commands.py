"""Commands of a journal that are taken apart at once are those that are taken apart word by word."""

from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from streamd.journal import parsing
from streamd.journal.record import encode_command

WORDS = st.lists(
    st.one_of(st.binary(max_size=6), st.sampled_from([b"\r\n$1", b"$2", b"x" * 1_500])), min_size=1, max_size=9
)


def parsed(data: bytes, at: int) -> object:
    try:
        return parsing.parse_command(data, at)
    except (parsing.Incomplete, parsing.Malformed) as error:
        return type(error), str(error)


@given(WORDS, WORDS, st.integers(0, 200), st.sampled_from([b"", b"", b"\r", b"0", b"9", b"$", b"\n"]))
@example([b"a"], [b"b"], 1, b"9999999999999999999")
@example([b"0123456789"], [b"b"], 5, b"0")
def test_commands_are_taken_apart_as_word_by_word(first, second, place, spoil):
    before = b"#\r\n"
    data = encode_command(first) + encode_command(second)
    place %= len(data)
    data = before + data[:place] + spoil + data[place + len(spoil) :]
    found = parsed(data, len(before))
    with patch.object(parsing, "_SHORT_BYTES", 0):
        assert found == parsed(data, len(before))
    if not spoil:
        assert found == (first, len(before) + len(encode_command(first)))

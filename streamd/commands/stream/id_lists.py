"""Many entry IDs of a request, read together."""

from json import loads
from operator import itemgetter
from typing import Final

from streamd.stream.entry_id import SEQ_MAX, parse_id

# Two parts of 19 digits at most are both below 2**64.
PLAIN_ID_BYTES_MAX: Final = 20
_LAST_DIGITS: Final = {b"%03d" % ms: ms for ms in range(1000)}

# IDs as (ms, stamps, seqs): `ms` is to be added to the milliseconds of each; seqs: one for all, or the seq of each.
ListedIds = tuple[int, list[int], list[int] | int]


def parse_columns(words: list[bytes]) -> ListedIds | None:
    """Return entry IDs as columns; None if they are to be parsed one by one. Raises: InvalidStreamId.

    Hot path: entries that were read together are acknowledged together, by 100 IDs, say. If all are `digits-digits`,
    json parses the numbers faster than `parse_id` does one by one. IDs of one second and one seq, which most streams
    give to entries at less than one a millisecond, are faster still.
    """
    length = len(words)
    if length < 2 or max(map(len, words)) > PLAIN_ID_BYTES_MAX:
        return None
    text = b",".join(words)
    columns = _of_one_second(words, text)
    if columns is None and text.translate(None, b"0123456789") == b"-," * (length - 1) + b"-":
        try:
            parts = loads(b"[%b]" % text.replace(b"-", b","))
            return 0, parts[::2], parts[1::2]
        except ValueError:
            pass  # a part is missing, or begins with a zero
    return columns


def _of_one_second(words: list[bytes], text: bytes) -> ListedIds | None:
    """Return the columns of IDs that differ in the last three digits of their milliseconds alone, else None."""
    first = words[0]
    dash = first.find(b"-")
    head, tail = first[: dash - 3], first[dash:]
    if dash < 4 or not head.isdigit() or words[-1][: dash - 3] != head:
        return None
    digits = [word[dash - 3 : dash] for word in words]
    # `text`, the words with commas between them, says whether the rest of all words is the same.
    if text != head + (tail + b"," + head).join(digits) + tail:
        return None
    base = parse_id(head + b"000" + tail)
    try:
        return base >> 64, list(itemgetter(*digits)(_LAST_DIGITS)), base & SEQ_MAX
    except KeyError:
        return None

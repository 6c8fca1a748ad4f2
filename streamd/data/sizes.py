"""About how many bytes values take, from a sample of what they hold."""

from collections.abc import Iterable
from itertools import islice
from sys import getsizeof
from typing import Final

from streamd.data.element_list import ElementList
from streamd.data.growing import GrowingString
from streamd.data.hash import Hash
from streamd.data.member_set import MemberSet
from streamd.data.sorted_set import LISTED_MEMBERS_MAX, SortedSet
from streamd.data.timed_hash import times_of
from streamd.stream.groups.group import CONSUMER_BYTES, GROUP_BYTES
from streamd.stream.stream import Stream

# What a bytes object takes beside its contents; CPython's allocator gives multiples of 16.
_OBJECT_BYTES: Final = 33
_ALLOCATED: Final = 16
# A key's rows in the dicts of values and of the times of accesses: 36 to 73 bytes each, by how full a dict is.
ROW_BYTES: Final = 104
# An element of a block, and a score with its place in the order, which takes more in a large set.
_POINTER_BYTES: Final = 9
_SCORE_BYTES: Final = 32
_PLACE_BYTES: Final = (8, 20)
# A time of a field is a row of a dict, a number and a row of a heap.
_TIME_BYTES: Final = 232
# So many groups are looked at.
_GROUPS_MAX: Final = 20


def word_bytes(length: int) -> int:
    """Return the bytes of a word of this length."""
    return (_OBJECT_BYTES + length + _ALLOCATED - 1) // _ALLOCATED * _ALLOCATED


def words_bytes(words: Iterable[bytes], count: int, samples: int, may_be_one: bool = False) -> int:
    """Return the bytes of so many words, estimated from the first `samples` of them, with 0 from all.

    may_be_one: equal words of one pipeline may be one object, which counts once, and a word of one byte is none.
    """
    some = [*(islice(words, samples) if samples else words)]
    if not some:
        return 0
    if may_be_one:
        size = sum({id(word): word_bytes(len(word)) if len(word) > 1 else 0 for word in some}.values())
    else:
        size = sum([word_bytes(len(word)) for word in some])
    return size * count // len(some)


def string_bytes(value: bytes | GrowingString, samples: int) -> int:
    """Return the bytes of a string."""
    return word_bytes(len(value)) if isinstance(value, bytes) else value.memory_bytes


def hash_bytes(value: Hash, samples: int) -> int:
    """Return the bytes of a hash."""
    count = len(value)
    words = words_bytes(value, count, samples) + words_bytes(value.values(), count, samples, may_be_one=True)
    return getsizeof(value) + words + len(times_of(value)) * _TIME_BYTES


def list_bytes(value: ElementList, samples: int) -> int:
    """Return the bytes of a list."""
    count = len(value)
    places = range(0, count, max(1, count // samples) if samples else 1)
    some = [value[place] for place in places]
    return _ALLOCATED + words_bytes(some, count, 0, may_be_one=True) + count * _POINTER_BYTES


def set_bytes(value: MemberSet, samples: int) -> int:
    """Return the bytes of a set."""
    return getsizeof(value) + words_bytes(value, len(value), samples)


def sorted_set_bytes(value: SortedSet, samples: int) -> int:
    """Return the bytes of a sorted set."""
    count = len(value)
    each = _SCORE_BYTES + _PLACE_BYTES[count > LISTED_MEMBERS_MAX]
    return _ALLOCATED + getsizeof(value.scores) + words_bytes(value.scores, count, samples) + count * each


def stream_bytes(value: Stream, samples: int) -> int:
    """Return the bytes of a stream with its window and its groups. (A sample of them: O(1).)"""
    size = value.log.memory_bytes
    if value.idmp.iids_tracked:
        size += value.idmp.memory_bytes()
    groups = value.groups
    if groups:
        some = [*islice(groups.values(), _GROUPS_MAX)]
        each = sum(len(group.consumers) * CONSUMER_BYTES + group.pending.memory_bytes() for group in some)
        size += getsizeof(groups) + len(groups) * GROUP_BYTES + each * len(groups) // len(some)
    return size

"""Globs match what Redis's do."""

from itertools import product

import pytest

from streamd.base.glob import compile_glob


def obvious(pattern: bytes, text: bytes) -> bool:
    """Match byte by byte, trying every length for a star."""
    if not pattern:
        return not text
    byte, rest = pattern[:1], pattern[1:]
    if byte == b"*":
        return any(obvious(rest, text[skip:]) for skip in range(len(text) + 1))
    if byte == b"[":
        allowed, rest = obvious_class(rest)
        return bool(text) and text[0] in allowed and obvious(rest, text[1:])
    if not text:
        return False
    if byte == b"\\" and rest:
        byte, rest = rest[:1], rest[1:]
    elif byte == b"?":
        byte = text[:1]
    return byte == text[:1] and obvious(rest, text[1:])


def obvious_class(rest: bytes) -> tuple[set[int], bytes]:
    negated = rest[:1] == b"^"
    rest = rest[negated:]
    members: set[int] = set()
    while rest and rest[:1] != b"]":
        if rest[:1] == b"\\" and len(rest) > 1:
            members.add(rest[1])
            rest = rest[2:]
        elif rest[1:2] == b"-" and len(rest) > 2:
            members.update(range(min(rest[0], rest[2]), max(rest[0], rest[2]) + 1))
            rest = rest[3:]
        else:
            members.add(rest[0])
            rest = rest[1:]
    return (set(range(256)) - members if negated else members), rest[1:]


@pytest.mark.parametrize("length", range(5))
def test_all_short_patterns_match_the_texts_that_they_say(length):
    texts = [bytes(text) for size in range(4) for text in product(b"ac-", repeat=size)]
    for letters in product(b"ac*?[]^-\\", repeat=length):
        pattern = bytes(letters)
        matches = compile_glob(pattern)
        found = [text for text in texts if matches(text)]
        assert found == [text for text in texts if obvious(pattern, text)], pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (b"h?llo", b"hello", True),
        (b"h[^e]llo", b"hello", False),
        (b"h[a-b]llo", b"hbllo", True),
        (b"h[b-a]llo", b"hbllo", True),
        (b"h\\*llo", b"h*llo", True),
        (b"h\\*llo", b"hello", False),
        (b"*\n*", b"a\nb", True),
        (b"?", b"\n", True),
        (b"a.c", b"abc", False),
        (b"[\xe9]", b"\xe9", True),
        (b"", b"", True),
        (b"", b"a", False),
    ],
)
def test_a_pattern_matches_the_whole_text_or_not(pattern, text, matches):
    assert bool(compile_glob(pattern)(text)) is matches


def test_letters_match_in_any_case_where_that_is_asked_for():
    assert compile_glob(b"MAX*", ignore_case=True)(b"maxmemory")
    assert not compile_glob(b"MAX*")(b"maxmemory")


def test_many_stars_cost_no_more_than_few():
    # With backtracking this would try about 10**12 ways.
    assert not compile_glob(b"*a" * 12 + b"b")(b"a" * 120)

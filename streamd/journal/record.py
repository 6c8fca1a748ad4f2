"""The written form of a unit of effects: RESP commands, and `#streamd` lines for effects without a Redis command.

A *record* is a database number and the words of a command that repeats an effect. If Redis has no such command, the
record is a *note*: its first word is one of NOTES (see streamd.journal.notes). A *unit* is the records that stand or
fall together. A *run* is the units under one header line:

    #streamd run LENGTH HASH SYNCED @PLACE [DIGESTS]     LENGTH bytes of RESP follow
    #streamd mix LENGTH HASH SYNCED @PLACE [DIGESTS]     the same with `#streamd` lines between the commands

HASH is the xxh3-64 of those bytes, in 16 hexadecimal digits. Its seed is SYNCED and PLACE with the file's salt, a
number that no writer of values knows; so a text in a value that looks like such a line has another hash. SYNCED is the
number of bytes of the file known to be on the disk when the run was written. PLACE is the number of bytes before the
run: a run that stands elsewhere proves that bytes before it are missing. DIGESTS are xxh32, 8 digits for each unit, if
there are several units; they tell which units of a torn run are whole. Other lines of streamd:

    #streamd journal 3 SALT HASH the first line of a file, or of the part behind bytes of other or older writers
    #streamd synced LENGTH HASH  the number of bytes of the file on the disk, when no later run has told it
    #streamd cut                 the end of the run before, whose torn rest was cut off by a start
    #streamd missing BYTES HASH  so many bytes are missing here, says `streamd check --skip`; places behind count them
    #streamd end LENGTH HASH     the end of a base, LENGTH is its place
    # each run names ...          DATABASES_LINE: from here on a run begins with a SELECT, or is of database 0

So the database of a run behind a damaged one is known; a journal of database 0 alone pays nothing for it.

redis-server skips such lines anywhere between commands, if they have less than 1,024 bytes.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from xxhash import xxh3_64_hexdigest, xxh32_digest

from streamd.data.records import Record, RecordColumn, Words
from streamd.journal.notes import NOTES
from streamd.stream.entry_id import consecutive_parts, format_ids
from streamd.stream.wire.packed_numbers import IS_NATIVE

try:
    if not IS_NATIVE:
        raise ImportError
    from streamd.journal.native_units import encode_units, encode_words
except ImportError:
    WRITES_UNITS = False
else:  # pragma: no cover - the tests over the wire run compiled
    WRITES_UNITS = True

# The salt is in it, and the hash of that.
_FIRST_LINE: Final = b"#streamd journal 3 %016x %b\n"
FIRST_LINE_HEAD: Final = b"#streamd journal 3 "
FIRST_LINE_BYTES: Final = len(_FIRST_LINE % (0, bytes(16)))
ANY_FIRST_LINE: Final = re.compile(rb"#streamd journal ([1-9]\d{0,8})(?=[ \n])")
FORMAT: Final = 3
_MISSING_BYTES_MAX: Final = 10**18
# In the seed of a hash, the place counts in the upper bits, so that it is not mistaken for SYNCED.
_PLACE_SHIFT: Final = 20
CUT_LINE: Final = b"#streamd cut\n"
# (Versions before it take it for a line of others.)
DATABASES_LINE: Final = b"# each run names its database, or is of 0\n"

# With 8 digits each and at most 72 bytes in front, a header stays below the 1,000 bytes that a line may have.
UNITS_PER_RUN_MAX: Final = 100

_LINE_TEXT_MAX: Final = 950
# Each byte as it stands in a note's line: as in a URL.
_PLAIN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~/:"
_QUOTED: Final = tuple(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in range(256))
_NOTE: Final = b"#streamd note "
_NOTE_GOES_ON: Final = b"#streamd more "

# One bytes operation formats a whole command, which takes half of the time of joining pieces. Longer commands join.
_TEMPLATES: Final = [b"*%d\r\n" % words + b"$%d\r\n%b\r\n" * words for words in range(16)]


def encode_command(words: Words) -> bytes:
    """Return a command as RESP."""
    if WRITES_UNITS:
        command = encode_words(words)
        if command is not None:
            return command
    if len(words) < len(_TEMPLATES):
        flat: list[int | bytes] = []
        for word in words:
            flat.append(len(word))
            flat.append(word)
        return _TEMPLATES[len(words)] % tuple(flat)
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def encode_columns(columns: Sequence[RecordColumn]) -> list[bytes]:
    """Return the RESP of like commands, given by the places of their words.

    At least one place has a sequence; all sequences are equally long. Equal words become a part of a template, which is
    several times as quick as `encode_command`; a property test compares both. Compiled, most are written byte by byte.
    """
    if WRITES_UNITS:
        units = encode_units(columns)
        if units is not None:
            return units
    shape: list[bytes | int | tuple[int]] = []
    differing: list[Sequence[int | bytes]] = []
    count = 0
    ids: range | None = None
    id_at = id_place = 0
    any_large = len(columns) > _KEPT_WORDS_MAX
    for column in columns:
        if isinstance(column, bytes):
            shape.append(column)
            any_large = any_large or len(column) > _KEPT_BYTES_MAX
            continue
        count = len(column)
        if isinstance(column, range):
            if ids is None:
                ids, id_at, id_place = column, len(shape), len(differing)
                shape.append(_DIFFERING_LENGTHS)  # until it is known for each part of them
                differing.append(())
                continue
            column = format_ids(column)
        word = column[0]
        if word == column[-1] and column.count(word) == count:
            shape.append(word)
            any_large = any_large or len(word) > _KEPT_BYTES_MAX
            continue
        lengths = [*map(len, column)]
        if lengths.count(len(word)) == count:
            shape.append(len(word))
            differing.append(column)
        else:
            shape.append(_DIFFERING_LENGTHS)
            differing += (lengths, column)
    make = _template if any_large else _kept_template
    if ids is None:
        template = make(tuple(shape))
        if not differing:
            return [template % ()] * count
        return [template % words for words in zip(*differing)]  # noqa: B905 (they are equally long)
    units = []
    at = 0
    for head, tails in consecutive_parts(ids[0], count):
        end = at + len(tails)
        shape[id_at] = (len(head) + len(tails[0]),)
        template = make(tuple(shape)) % head
        places = [column[at:end] for column in differing] if end - at < count else differing
        places[id_place] = tails
        units += [template % words for words in zip(*places)]  # noqa: B905
        at = end
    return units


_DIFFERING_LENGTHS: Final = -1
# Templates are kept if they have no more words, and these are no longer.
_KEPT_WORDS_MAX: Final = 32
_KEPT_BYTES_MAX: Final = 256


def _template(shape: tuple[bytes | int | tuple[int], ...]) -> bytes:
    """Return the template of a command: a place is a word, or the length of a word to fill in.

    A tuple has the length of IDs with a common beginning, which is filled in first, so that kept templates lack it.
    """
    parts = [b"*%d\r\n" % len(shape)]
    has_ids = False
    for place in shape:
        if isinstance(place, bytes):
            parts.append(b"$%d\r\n%b\r\n" % (len(place), place.replace(b"%", b"%%")))
        elif isinstance(place, tuple):
            has_ids = True
            parts.append(b"$%d\r\n" % place)
            parts.append(_ID)
        elif place == _DIFFERING_LENGTHS:
            parts.append(b"$%d\r\n%b\r\n")
        else:
            parts.append(b"$%d\r\n%%b\r\n" % place)
    if has_ids:
        parts = [part if part is _ID else part.replace(b"%", b"%%") for part in parts]
    return b"".join(parts)


_ID: Final = b"%b%%b\r\n"
_kept_template: Final = lru_cache(maxsize=256)(_template)


def encode_note(db_index: int, words: Words) -> bytes:
    """Return a note as one or more `#streamd` lines: name, database, and the other words percent-encoded, `~` if
    empty.
    """
    quoted = ["".join([_QUOTED[byte] for byte in word]) if word != b"~" else "%7E" for word in words[1:]]
    text = b"%b %d %b" % (words[0], db_index, " ".join(word or "~" for word in quoted).encode())
    if len(text) <= _LINE_TEXT_MAX:
        return b"%b%b\n" % (_NOTE, text)
    pieces = [text[at : at + _LINE_TEXT_MAX] for at in range(0, len(text), _LINE_TEXT_MAX)]
    return b"".join(b"%b%b\n" % (_NOTE_GOES_ON, piece) for piece in pieces[:-1]) + b"%b%b\n" % (_NOTE, pieces[-1])


def decode_note(text: bytes) -> list[bytes]:
    """Return the words of a note from the joined text of its lines: `#` and its name, database, other words."""
    return [b"#" + text.split(b" ")[0]] + [
        _unquoted(word) if b"%" in word else b"" if word == b"~" else word for word in text.split(b" ")[1:]
    ]


def _unquoted(word: bytes) -> bytes:
    from urllib.parse import unquote_to_bytes  # an empty start need not wait for it

    return unquote_to_bytes(word)


def encode_unit(records: Sequence[Record], db: int | None) -> tuple[bytes, int | None, bool]:
    """Return `(bytes, database selected behind it, whether it has notes)` of a unit.

    db: the database selected before it; None if unknown.
    Several commands become MULTI ... EXEC; a note needs no SELECT, since it names its database.
    """
    if len(records) == 1:
        index, words = records[0]
        if words[0] not in NOTES:
            if index == db:
                return encode_command(words), db, False
            return encode_select(index) + encode_command(words), index, False
        return encode_note(index, words), db, True
    parts: list[bytes] = []
    commands = 0
    notes = False
    for index, words in records:
        if words[0] in NOTES:
            notes = True
            parts.append(encode_note(index, words))
            continue
        if index != db:
            parts.append(encode_select(index))
            db = index
        commands += 1
        parts.append(encode_command(words))
    return encode_together(parts) if commands > 1 else b"".join(parts), db, notes


def encode_together(parts: Sequence[bytes]) -> bytes:
    """Return one unit of several encoded commands."""
    return b"".join((b"*1\r\n$5\r\nMULTI\r\n", *parts, b"*1\r\n$4\r\nEXEC\r\n"))


def encode_select(index: int) -> bytes:
    """Return the command that selects a database."""
    return encode_command((b"SELECT", b"%d" % index))


def encode_first_line(salt: int) -> bytes:
    """Return the first line of a file, or of streamd's part of a file with another beginning; `salt` is not 0."""
    return _FIRST_LINE % (salt, run_hash(b"journal 3", 0, salt))


def decode_first_line(line: bytes) -> int | None:
    """Return the salt of a first line of this format; None if the line is another or damaged."""
    if not line.startswith(FIRST_LINE_HEAD):
        return None
    try:
        salt = int(line[19:35], 16)
    except ValueError:
        return None
    return salt if salt and line == encode_first_line(salt) else None


def encode_run(
    units: Sequence[bytes], synced: int, notes: bool, salt: int, place: int, bodies: list[bytes] | None = None
) -> bytes:
    """Return a run, header and units; at most UNITS_PER_RUN_MAX units. bodies: gets the units, joined."""
    word = b"mix" if notes else b"run"
    body = units[0] if len(units) == 1 else b"".join(units)
    if bodies is not None:
        bodies.append(body)
    found = run_hash(body, synced, salt, place)
    if len(units) == 1:
        return b"#streamd %b %d %b %d @%d\n%b" % (word, len(body), found, synced, place, body)
    digests = b"".join(map(xxh32_digest, units)).hex().encode()
    return b"#streamd %b %d %b %d @%d %b\n%b" % (word, len(body), found, synced, place, digests, body)


def run_hash(body: bytes, synced: int, salt: int, place: int = 0) -> bytes:
    """Return the hash of a run's header. (The lowest 64 bits of a seed count.)"""
    return xxh3_64_hexdigest(body, (place << _PLACE_SHIFT) + synced ^ salt).encode()


def encode_missing(count: int, salt: int) -> bytes:
    """Return the line that says that so many bytes are missing at its place; all such lines are equally long."""
    assert abs(count) < _MISSING_BYTES_MAX
    return b"#streamd missing %+020d %b\n" % (count, run_hash(b"missing", count % 2**64, salt))


def encode_synced(length: int, salt: int = 0) -> bytes:
    """Return the line for the number of bytes of the file that are on the disk."""
    return b"#streamd synced %d %b\n" % (length, run_hash(b"synced", length, salt))


def encode_end(length: int, salt: int = 0) -> bytes:
    """Return the last line of a base; `length` is its offset."""
    return b"#streamd end %d %b\n" % (length, run_hash(b"end", length, salt))

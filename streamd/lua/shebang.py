"""The first line of a script, `#!lua flags=...`, or of a library, `#!lua name=...`."""

from typing import Final, NamedTuple

from streamd.base.errors import CommandError, ProtocolError, echoed
from streamd.resp.inline import split_inline

# In the order in which FUNCTION LIST shows them.
FLAGS: Final = ("no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys")


class Shebang(NamedTuple):
    """The first line.

    is_there: a script without the line runs as before Redis 7: each call is checked.
    flags: names out of FLAGS.
    """

    is_there: bool = False
    flags: frozenset[str] = frozenset()


def read_shebang(source: bytes) -> tuple[Shebang, bytes]:
    """Return the first line, and the script with that line emptied, so that lines keep their numbers.

    Raises: CommandError with Redis's texts.
    Source: https://redis.io/docs/latest/develop/programmability/lua-api/#script_flags
    """
    if not source.startswith(b"#!"):
        return Shebang(), source
    line, newline, rest = source.partition(b"\n")
    if not newline:
        raise CommandError("ERR Invalid script shebang")
    words = line.split()
    if not words or words[0] != b"#!lua":
        raise CommandError(f"ERR Unexpected engine in script shebang: {echoed(words[0] if words else b'')}")
    flags: set[str] = set()
    for word in words[1:]:
        if not word.startswith(b"flags="):
            raise CommandError(f"ERR Unknown lua shebang option: {echoed(word)}")
        names = echoed(word[6:])
        for name in names.split(",") if names else ():
            if name not in FLAGS:
                raise CommandError(f"ERR Unexpected flag in script shebang: {name}")
            flags.add(name)
    return Shebang(True, frozenset(flags)), b"\n" + rest


def read_library_header(code: bytes) -> tuple[bytes, bytes, bytes]:
    """Return a library's engine and name, and its code with the first line emptied.

    Raises: CommandError with Redis's texts.
    """
    if not code.startswith(b"#!"):
        raise CommandError("ERR Missing library metadata")
    line, newline, rest = code.partition(b"\n")
    try:
        words = split_inline(line)
    except ProtocolError:
        words = []
    if not newline or not words or b"\0" in line:
        raise CommandError("ERR Invalid library metadata")
    name: bytes | None = None
    for word in words[1:]:
        if word[:5].lower() != b"name=":
            raise CommandError(f"ERR Invalid metadata value given: {echoed(word)}")
        if name is not None:
            raise CommandError("ERR Invalid metadata value, name argument was given multiple times")
        name = word[5:]
    if name is None:
        raise CommandError("ERR Library name was not given")
    return words[0][2:], name, b"\n" + rest

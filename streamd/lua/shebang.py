"""The first line of a script, `#!lua flags=...`, and its flags."""

from typing import Final, NamedTuple

from streamd.base.errors import CommandError, echoed

FLAGS: Final = frozenset({"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"})


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
        for name in filter(None, echoed(word[6:]).split(",")):
            if name not in FLAGS:
                raise CommandError(f"ERR Unexpected flag in script shebang: {name}")
            flags.add(name)
    return Shebang(True, frozenset(flags)), b"\n" + rest

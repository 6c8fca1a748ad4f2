"""Taking apart RESP that was verified before: the fast way."""

from streamd.journal.file_reader import Incomplete, Malformed, parse_command

try:
    import hiredis
except ImportError:  # PyPy, Windows: slower, the same
    hiredis = None  # type: ignore[assignment]


def bare_commands(data: bytes) -> tuple[list[list[bytes]], bool]:
    """Return `(commands, whether these are all)` of verified bytes. These may still be no commands, or notes behind
    commands; then the commands in front of that place are returned.
    """
    found: list[list[bytes]] = []
    if hiredis is None:
        at = 0
        try:
            while at < len(data):
                words, at = parse_command(data, at)
                found.append(words)
        except (Incomplete, Malformed):
            return found, False
        return found, True
    reader = hiredis.Reader()
    reader.feed(data)
    try:
        found.extend(iter(reader.gets, False))
    except hiredis.ProtocolError:
        is_whole = False
    else:
        is_whole = not reader.has_data()  # a note, say, which has another end of its line
    kinds = [*map(type, found)]
    if kinds.count(list) == len(kinds):
        return found, is_whole
    return found[: next(at for at, kind in enumerate(kinds) if kind is not list)], False

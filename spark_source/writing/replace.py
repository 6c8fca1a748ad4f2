"""Replacing one stream by another: readers in a group see only new entries."""

from spark_source import ids
from spark_source.connecting.connection import Session, Word
from spark_source.connecting.stream_info import as_dict, stream_info


def replacing(session: Session, new: str, old: str) -> "list[list[Word]]":
    """Return the commands that put `new` in the place of `old`, or, without `new`, leave `old` empty.

    Groups keep their positions, before all new entries, whose IDs are greater. Only if a producer chose IDs in the
    future a group starts at the first new entry. To be sent in one transaction that watches `old`.
    """
    there = stream_info(session, new)
    if there is None:
        return [["XTRIM", old, "MAXLEN", 0]]
    commands: list[list[Word]] = [["RENAME", new, old]]
    if stream_info(session, old) is None:
        return commands
    groups = session.call("XINFO", "GROUPS", old)
    for reply in groups if isinstance(groups, list) else []:
        group = as_dict(reply)
        name, at = group["name"], group["last-delivered-id"]
        assert isinstance(name, bytes)
        assert isinstance(at, bytes)
        if there.first is not None and ids.parse(at) >= ids.parse(there.first):
            at = ids.SMALLEST.encode()
        commands.append(["XGROUP", "CREATE", old, name, at])
    return commands

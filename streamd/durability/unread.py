"""Finds data in a directory that a start does not read, so that an empty server is not mistaken for a loss."""

from typing import Final

from streamd.base.filesystem import FileSystem
from streamd.cold.files import ENDING
from streamd.configuration.server_options import Config

_SNAPSHOT: Final = "dump.rdb"
_MANIFEST: Final = ".manifest"
# In the name of a directory that a server or a person has moved aside, and knows of.
_OLD: Final = ".old-"


def unread(files: FileSystem, config: Config) -> list[str]:
    """Return a line for each journal that a server with this configuration leaves unread, and for Redis's snapshot if
    there is no journal.
    """
    directory = config.text("dir") or "."
    ours = config.text("appenddirname"), config.text("appendfilename")
    names = sorted(files.list(directory))
    journals = [(name, one) for name in names if _OLD not in name for one in _journals(files, directory, name)]
    lines = []
    for name, filename in journals:
        if (name, filename) != ours:
            why, options = "other names are configured", f"--appenddirname {name} --appendfilename {filename}"
        elif not config["appendonly"]:
            why, options = "appendonly is no", "--appendonly yes"
        else:
            continue
        path = f"{directory}/{name}"
        about = _about(files, path, filename)
        lines.append(f"{path} is a journal ({about}), which is not read: {why}; {options} serves what is in it")
    if ours[1] in names and not files.is_directory(f"{directory}/{ours[1]}"):
        path = f"{directory}/{ours[1]}"
        about = _about(files, directory, ours[1])
        lines.append(f"{path} is a journal of Redis 6 ({about}), which is not read: let redis-server 7 load it")
    if not journals and _SNAPSHOT in names:
        lines.append(
            f"{directory}/{_SNAPSHOT} is an RDB file, which is not read: let redis-server make a journal of it, with"
            " CONFIG SET aof-use-rdb-preamble no and BGREWRITEAOF"
        )
    return lines


def _journals(files: FileSystem, directory: str, name: str) -> list[str]:
    """Return the common beginnings of the file names of journals in a directory within this one."""
    path = f"{directory}/{name}"
    try:
        found = files.list(path) if files.is_directory(path) else []
    except OSError:
        found = []  # others' directories may not be read
    whole = [one.removesuffix(_MANIFEST) for one in found if one.endswith(_MANIFEST) and not one.startswith("temp-")]
    return sorted(one for one in whole if any(file.startswith(f"{one}.") and file.endswith(".aof") for file in found))


def _about(files: FileSystem, directory: str, filename: str) -> str:
    """Return the size of a journal and the time of its last change."""
    size = changed_ns = 0
    for name in files.list(directory):
        if name == filename or (name.startswith(f"{filename}.") and name.endswith((".aof", ".rdb", ENDING))):
            try:
                found = files.identity(f"{directory}/{name}")
            except FileNotFoundError:
                continue  # a server that runs there has rewritten it
            size += found.size
            changed_ns = max(changed_ns, found.changed_ns)
    from datetime import UTC, datetime  # not at each start

    return f"{size} bytes, last changed {datetime.fromtimestamp(changed_ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"

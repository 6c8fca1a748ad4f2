"""What lies in a data directory and is not read by a start, so that nobody takes an empty server for a loss."""

from typing import Final

from streamd.base.config import Config
from streamd.journal.filesystem import FileSystem

_SNAPSHOT: Final = "dump.rdb"


def unread(files: FileSystem, config: Config) -> list[str]:
    """Return a line for what a server with this configuration leaves unread: a journal, or Redis's snapshot."""
    directory, name = config.text("dir") or ".", config.text("appendfilename")
    journal = f"{directory}/{config.text('appenddirname')}"
    if files.exists(f"{journal}/{name}.manifest"):
        if config["appendonly"]:
            return []
        return [f"{journal} is a journal, which is not read: appendonly is no; --appendonly yes serves what is in it"]
    if files.exists(f"{directory}/{_SNAPSHOT}"):
        return [
            f"{directory}/{_SNAPSHOT} is an RDB file, which is not read: let redis-server make a journal of it, with"
            " CONFIG SET aof-use-rdb-preamble no and BGREWRITEAOF"
        ]
    return []

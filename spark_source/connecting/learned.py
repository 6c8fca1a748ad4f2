"""The nodes that a cluster has named, kept for other processes: Spark plans each micro-batch in processes of its own.

A query may name one node only, and that node may die. A process that starts then finds the other nodes in a file in the
temporary directory, which belongs to this user alone. The file is a hint: a node is used only if the cluster that it
belongs to still gives it the ID that it had.
"""

import hashlib
import json
import logging
import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from spark_source.settings.connection_options import ConnectionOptions

if TYPE_CHECKING:
    import redis

Learned = tuple[tuple[str, int, str], ...]
"""Host, port and node ID of each node."""

FILE_BYTES_MAX = 1 << 20  # a cluster has a thousand nodes at most, of some 80 bytes

log = logging.getLogger("spark_source")


def nodes_of(node: "redis.Redis", host: str) -> Learned:
    """Return the nodes of a node's cluster, sorted; `host` stands in where it does not know its own.

    Raises: redis.RedisError.
    """
    reply = node.execute_command("CLUSTER SLOTS")
    found = set()
    for _, _, *places in reply if isinstance(reply, list) else ():
        for place in places:
            if len(place) > 2 and place[0] != b"?":
                found.add((_text(place[0]) or host, int(place[1]), _text(place[2])))
    return tuple(sorted(found))


def keep_nodes(options: ConnectionOptions, nodes: Learned) -> None:
    """Keep the nodes of the options' cluster; where that is not possible, only this process knows them."""
    if not nodes or nodes == kept_nodes(options):
        return
    try:
        path = _path(options)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not _is_private(path.parent):
            return
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(nodes))
        new.replace(path)
    except OSError as error:
        log.debug("the nodes of %s are not kept: %s", options.endpoint, error)


def kept_nodes(options: ConnectionOptions) -> Learned:
    """Return the nodes that a process of this user kept last; () for none."""
    path = _path(options)
    try:
        if not _is_private(path.parent) or path.stat().st_size > FILE_BYTES_MAX:
            return ()
        return tuple((str(host), int(port), str(name)) for host, port, name in json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, RecursionError):
        return ()


def _path(options: ConnectionOptions) -> Path:
    """Return the file for the nodes that the options name."""
    name = hashlib.sha256(json.dumps([options.nodes, options.ssl]).encode()).hexdigest()[:32]
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"streamd-spark-{user}" / f"{name}.nodes"


def _is_private(directory: Path) -> bool:
    """Return whether only this user can write files there: others could send the user's password elsewhere."""
    if not hasattr(os, "getuid"):
        return True  # on Windows the temporary directory itself belongs to the user
    found = directory.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _text(word: bytes | str | None) -> str:
    return word.decode() if isinstance(word, bytes) else word or ""

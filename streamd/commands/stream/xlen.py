"""XLEN: how many entries a stream holds."""

from streamd.catalog import Context, command
from streamd.resp.types import Reply


@command(
    "XLEN",
    arity=2,
    flags="readonly fast",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity="O(1)",
    syntax="key",
    access="RO",
)
def xlen(context: Context, args: list[bytes]) -> Reply:
    """Return the number of entries in a stream.

    Reply: integer; 0 when the key does not exist.
    Raises: WrongType.
    """
    stream = context.read_stream(args[1])
    return 0 if stream is None else len(stream)

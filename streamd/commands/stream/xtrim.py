"""XTRIM: remove the oldest entries of a stream."""

from streamd.catalog import Context, command
from streamd.catalog.applying import Applying, applies
from streamd.commands.stream.options import parse_append_options
from streamd.resp.types import Reply


@command(
    "XTRIM",
    arity=-4,
    flags="write",
    keys=(1, 1, 1),
    since="5.0.0",
    complexity="O(N), with N being the number of evicted entries. Constant times are very small however, since entries "
    "are organized in segments that go whole.",
    syntax="key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
    access="RW delete",
    tips="nondeterministic_output",
)
def xtrim(context: Context, args: list[bytes]) -> Reply:
    """Remove the oldest entries of a stream and return how many went.

    Reply: integer; 0 when the key does not exist.
    Raises: CommandError; WrongType.
    """
    node_max_entries = context.state.config.integer("stream-node-max-entries")
    trim = parse_append_options(args, node_max_entries, adding=False).trim
    assert trim is not None
    key = args[1]
    stream = context.stream(key)
    if stream is None:
        return 0

    if stream.log.may_wait:
        trim.require(stream)

    length = len(stream)
    exact = trim.apply(stream)

    if exact:
        context.record(b"XTRIM", key, *exact, changes=length - len(stream))
        context.changed(key, "t", "xtrim")
    return length - len(stream)


@applies("XTRIM")
def apply_trim(applying: Applying, words: list[bytes]) -> None:
    """Remove as many of the oldest entries as it says."""
    trim = parse_append_options(words, 0, adding=False, recorded=True).trim
    assert trim is not None
    trim.apply(applying.stream(words[1]))

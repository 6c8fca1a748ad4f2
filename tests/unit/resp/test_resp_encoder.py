"""Every kind of reply is encoded as its row of the table says, in both protocol versions."""

import re

import hiredis
import pytest

from streamd.base.errors import CommandError, ProtocolError, WrongType
from streamd.resp.encoder import encode
from streamd.resp.floats import format_float
from streamd.resp.reply_ends import split_replies
from streamd.resp.types import NO_REPLY, NULL_ARRAY, Pairs, Parts, Push, Raw, SetReply, Verbatim

# The reply, its RESP2, its RESP3 (... if it is the same).
TABLE = [
    ("OK", b"+OK\r\n", ...),
    ("any status", b"+any status\r\n", ...),
    ("two\r\nlines", b"+two  lines\r\n", ...),
    (b"", b"$0\r\n\r\n", ...),
    (b"\r\n\x00\xff", b"$4\r\n\r\n\x00\xff\r\n", ...),
    (b"a" * 1023, b"$1023\r\n%b\r\n" % (b"a" * 1023), ...),
    (b"a" * 1024, b"$1024\r\n%b\r\n" % (b"a" * 1024), ...),
    (0, b":0\r\n", ...),
    (-1, b":-1\r\n", ...),
    (2**63 - 1, b":9223372036854775807\r\n", ...),
    (None, b"$-1\r\n", b"_\r\n"),
    (NULL_ARRAY, b"*-1\r\n", b"_\r\n"),
    ([], b"*0\r\n", ...),
    ([1, b"a", None], b"*3\r\n:1\r\n$1\r\na\r\n$-1\r\n", b"*3\r\n:1\r\n$1\r\na\r\n_\r\n"),
    ((1, [2, (3,)]), b"*2\r\n:1\r\n*2\r\n:2\r\n*1\r\n:3\r\n", ...),
    ({}, b"*0\r\n", b"%0\r\n"),
    ({b"a": 1, "b": [2]}, b"*4\r\n$1\r\na\r\n:1\r\n+b\r\n*1\r\n:2\r\n", b"%2\r\n$1\r\na\r\n:1\r\n+b\r\n*1\r\n:2\r\n"),
    (SetReply([b"a", 1]), b"*2\r\n$1\r\na\r\n:1\r\n", b"~2\r\n$1\r\na\r\n:1\r\n"),
    (Push([b"a", 1]), b"*2\r\n$1\r\na\r\n:1\r\n", b">2\r\n$1\r\na\r\n:1\r\n"),
    (Pairs([]), b"*0\r\n", b"%0\r\n"),
    (
        Pairs([(b"s", Parts([b"*1\r\n", b":1\r\n"])), (b"t", Raw(b"+r\r\n"))]),
        b"*2\r\n*2\r\n$1\r\ns\r\n*1\r\n:1\r\n*2\r\n$1\r\nt\r\n+r\r\n",
        b"%2\r\n$1\r\ns\r\n*1\r\n:1\r\n$1\r\nt\r\n+r\r\n",
    ),
    (
        Pairs([(b"s", [1]), (b"t", {b"k": True})]),
        b"*2\r\n*2\r\n$1\r\ns\r\n*1\r\n:1\r\n*2\r\n$1\r\nt\r\n*2\r\n$1\r\nk\r\n:1\r\n",
        b"%2\r\n$1\r\ns\r\n*1\r\n:1\r\n$1\r\nt\r\n%1\r\n$1\r\nk\r\n#t\r\n",
    ),
    (1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
    (3.0, b"$1\r\n3\r\n", b",3\r\n"),
    (0.1, b"$3\r\n0.1\r\n", b",0.1\r\n"),
    (-2.5e20, b"$8\r\n-2.5e+20\r\n", b",-2.5e+20\r\n"),
    (float("inf"), b"$3\r\ninf\r\n", b",inf\r\n"),
    (float("-inf"), b"$4\r\n-inf\r\n", b",-inf\r\n"),
    (float("nan"), b"$3\r\nnan\r\n", b",nan\r\n"),
    (-float("nan"), b"$3\r\nnan\r\n", b",nan\r\n"),
    (True, b":1\r\n", b"#t\r\n"),
    (False, b":0\r\n", b"#f\r\n"),
    (CommandError("ERR no"), b"-ERR no\r\n", ...),
    (WrongType(), b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", ...),
    (CommandError("ERR a\r\nb\nc"), b"-ERR a  b c\r\n", ...),
    (CommandError("ERR '\udcff' é"), b"-ERR '\xff' \xc3\xa9\r\n", ...),
    (ProtocolError("expected '$', got '\udcff'"), b"-ERR Protocol error: expected '$', got '\xff'\r\n", ...),
    ([CommandError("ERR no"), 1], b"*2\r\n-ERR no\r\n:1\r\n", ...),
    (Raw(b"*1\r\n$1\r\na\r\n"), b"*1\r\n$1\r\na\r\n", ...),
    (Parts([b"*1\r\n", b"$1\r\na\r\n"]), b"*1\r\n$1\r\na\r\n", ...),
    ([Raw(b"$1\r\na\r\n"), 1], b"*2\r\n$1\r\na\r\n:1\r\n", ...),
    (Verbatim(b"text\r\n"), b"$6\r\ntext\r\n\r\n", b"=10\r\ntxt:text\r\n\r\n"),
    (Verbatim(b"# a", "mkd"), b"$3\r\n# a\r\n", b"=7\r\nmkd:# a\r\n"),
    (NO_REPLY, b"", b""),
]


def name_of(value: object) -> str:
    """Return what a case is called: the same each time, so without the places of objects."""
    return re.sub(r"<[\w.]*\.(\w+) object at \w+>", r"\1", repr(value))[:40]


@pytest.mark.parametrize(("reply", "resp2", "resp3"), TABLE, ids=name_of)
def test_a_reply_is_encoded_as_the_table_says(reply, resp2, resp3):
    assert encode(reply, 2) == resp2
    assert encode(reply, 3) == (resp2 if resp3 is ... else resp3)


def plain(reply, protocol):
    """What a client makes of a reply."""
    match reply:
        case bool():
            return reply if protocol == 3 else int(reply)
        case float():
            return reply if protocol == 3 else format_float(reply)
        case str():
            return reply.replace("\r", " ").replace("\n", " ").encode()
        case dict():
            pairs = [(plain(key, protocol), plain(value, protocol)) for key, value in reply.items()]
            return dict(pairs) if protocol == 3 else [word for pair in pairs for word in pair]
        case Pairs():
            pairs = [[plain(key, protocol), plain(value, protocol)] for key, value in reply.items]
            return dict(pairs) if protocol == 3 else pairs
        case list() | tuple():
            return [plain(item, protocol) for item in reply]
        case SetReply() | Push():
            return [plain(item, protocol) for item in reply.items]
        case Verbatim():
            return reply.data
    return None if reply is NULL_ARRAY else reply


def reads_back(reply):
    """False for what has no value to compare: errors, ready-made bytes, nothing, and nan (unequal to itself)."""
    if isinstance(reply, list):
        return all(map(reads_back, reply))
    if isinstance(reply, Pairs):
        return all(reads_back(value) for _, value in reply.items)
    return not isinstance(reply, CommandError | Raw | Parts) and reply is not NO_REPLY and str(reply) != "nan"


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("reply", [row[0] for row in TABLE if reads_back(row[0])], ids=name_of)
def test_a_client_reads_the_reply_back(reply, protocol):
    reader = hiredis.Reader(notEnoughData=...)
    reader.feed(encode(reply, protocol))

    assert reader.gets() == plain(reply, protocol)
    assert reader.gets() is ...


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_value_that_is_no_reply_is_our_bug(protocol):
    with pytest.raises(TypeError, match="no reply: object"):
        encode([object()], protocol)


@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_that_stand_one_behind_the_other_are_told_apart(protocol):
    each = [encode(reply, protocol) for reply, *_ in TABLE if reply is not NO_REPLY]
    assert list(split_replies(b"".join(each))) == each

"""MEMORY USAGE says about what a value takes, of whatever it consists, and looks at no more elements for that."""

import gc
import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import pytest

from tests.session import Session

COUNT = 4_000
# What no value has for itself.
SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)

KINDS = {
    "a string": lambda n: ["APPEND", "k", "v" * 20],
    "a hash": lambda n: ["HSET", "k", f"field:{n}", f"{n:020d}"],
    "a hash of small numbers": lambda n: ["HSET", "k", f"field:{n}", n % 10],
    "a list": lambda n: ["RPUSH", "k", f"element:{n}"],
    "a set": lambda n: ["SADD", "k", f"member:{n}"],
    "a set of numbers": lambda n: ["SADD", "k", n],
    "a sorted set": lambda n: ["ZADD", "k", n * 1.5, f"member:{n}"],
    "a stream": lambda n: ["XADD", "k", "*", "f", f"{hash(n * 7919.5):020d}"],
    "a window of one producer": lambda n: ["XADD", "k", "MAXLEN", 0, "IDMP", "p", f"{n:016d}", "*", "f", "v"],
    "windows of some producers": lambda n: ["XADD", "k", "MAXLEN", 0, "IDMP", f"p{n % 20}", f"{n:016d}", "*", "f", "v"],
    "windows of many": lambda n: ["XADD", "k", "MAXLEN", 0, "IDMP", f"p{n % 2000}", f"{n:016d}", "*", "f", "v"],
    "windows of one iid": lambda n: ["XADD", "k", "MAXLEN", 0, "IDMP", f"p{n}", f"{n:016d}", "*", "f", "v"],
    "long iids": lambda n: ["XADD", "k", "MAXLEN", 0, "IDMP", f"p{n % 20}", f"{n:0100d}", "*", "f", "v"],
    "groups": lambda n: ["XGROUP", "CREATE", "k", f"g{n}", "$", "MKSTREAM"],
}
# (What is kept of entries for their readers is there when a second group gets them.)
GROUP = [
    ["XGROUP", "CREATE", "k", "g", "0", "MKSTREAM"],
    ["XGROUP", "CREATE", "k", "w", "0"],
    *(["XADD", "k", f"{n + 1}-0", "f", "v"] for n in range(COUNT)),
]
FROM = ["STREAMS", "k", ">"]
DELIVERED = {
    "pending entries, 100 at a time": lambda n: (
        [] if n % 100 else ["XREADGROUP", "GROUP", "g", f"c{n % 7}", "COUNT", 100]
    ),
    "pending entries, one at a time": lambda n: ["XREADGROUP", "GROUP", "g", f"c{n % 7}", "COUNT", 1],
}


def allocated_bytes(value: object, shared: set[int]) -> int:
    """Return what CPython has allocated for an object and all that it leads to, but for what is shared."""
    seen, left, size = set(shared), [value], 0
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, SHARED):
            continue
        seen.add(id(one))
        if not (isinstance(one, int) and -5 <= one <= 256) and not (isinstance(one, bytes) and len(one) < 2):
            size += (sys.getsizeof(one) + 15) // 16 * 16
        left += gc.get_referents(one)
    return size


def led_to(session: Session) -> set[int]:
    """Return the objects of a server without keys, to which values lead, too."""
    seen: set[int] = set()
    left: list[object] = [session.state]
    while left:
        one = left.pop()
        if id(one) not in seen and not isinstance(one, SHARED):
            seen.add(id(one))
            left += gc.get_referents(one)
    return seen


@pytest.mark.interpreted(reason="what compiled objects lead to cannot be asked for")
@pytest.mark.parametrize("kind", [*KINDS, *DELIVERED])
def test_memory_usage_is_within_a_fifth_of_what_is_allocated(kind):
    session = Session()
    session.do("CONFIG SET stream-idmp-maxsize 10000")
    session.do("XADD other * f v")
    shared = led_to(session)
    before = 0
    if kind in DELIVERED:
        for request in [*GROUP, *(["XREADGROUP", "GROUP", "w", "c", "COUNT", 100, *FROM] for _ in range(COUNT // 100))]:
            session.execute(request)
        before = allocated_bytes(session.state.keyspace[0].values[b"k"], shared)
        told = session.do("MEMORY USAGE k")
        requests = [[*words, *FROM] for n in range(COUNT) if (words := DELIVERED[kind](n))]
    else:
        told = 0
        requests = [KINDS[kind](n) for n in range(COUNT)]
    for request in requests:
        session.execute(request)
    allocated = allocated_bytes(session.state.keyspace[0].values[b"k"], shared) - before
    assert session.do("MEMORY USAGE k") - told == pytest.approx(allocated, rel=0.2)

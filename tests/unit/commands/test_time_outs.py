"""A wait may end at the last millisecond that 64 bits can say, and no later."""

import pytest

from tests.session import Error

LAST_MS = 2**63 - 1
OUT_OF_RANGE = Error("ERR timeout is out of range")


@pytest.mark.parametrize(
    "form", ["XREAD BLOCK {} STREAMS s $", "XREADGROUP GROUP g c BLOCK {} STREAMS s >", "WAIT 1 {}"]
)
def test_the_longest_wait_in_milliseconds(engine, clock, form):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    longest_ms = LAST_MS - clock.now_ms()
    assert engine.do(form.format(longest_ms + 1)) == OUT_OF_RANGE
    waiter = engine.connect()
    waiter.say(form.format(longest_ms))
    assert waiter.blocked


@pytest.mark.parametrize(
    "form",
    [
        *("BLPOP none {}", "BRPOP none {}", "BLMOVE none to LEFT LEFT {}", "BRPOPLPUSH none to {}"),
        *("BLMPOP {} 1 none LEFT", "BZPOPMIN none {}", "BZPOPMAX none {}", "BZMPOP {} 1 none MIN"),
    ],
)
def test_the_longest_wait_in_seconds(engine, clock, form):
    whole_s, ms = divmod(LAST_MS - clock.now_ms(), 1000)
    assert ms < 999
    # Behind the point no more than the mantissa holds.
    assert engine.do(form.format(f"{whole_s}.{ms + 1:03}")) == OUT_OF_RANGE
    assert engine.do(form.format(whole_s + 1)) == OUT_OF_RANGE
    for words in (str(whole_s), f"{whole_s}.{ms:03}"):
        waiter = engine.connect()
        waiter.say(form.format(words))
        assert waiter.blocked


def test_a_wait_of_a_part_of_a_millisecond_is_rounded_up(engine, clock):
    waiter = engine.connect()
    waiter.say("BLPOP none 0.0501")
    clock.advance(50)
    assert waiter.blocked
    clock.advance(1)
    assert waiter.received() == b"*-1\r\n"

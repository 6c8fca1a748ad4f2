"""The page ends at the first signal, whenever that comes."""

import signal
import weakref
from collections.abc import Iterator

import pytest

pytest.importorskip("uvicorn")

from streamd.clients.ui import serving


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}

    def give_up(number: int, frame: object) -> None:
        raise TimeoutError("the page goes on")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    for number, handler in before.items():
        signal.signal(number, handler)


class Anything:
    """What a weak reference can point to."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_while_it_starts_is_not_lost(number):
    """Python drops an exception that meets the callback of a weak reference."""
    kept = [Anything()]
    weak = weakref.ref(kept[0], lambda dead: signal.raise_signal(number))

    async def nothing(scope: object, receive: object, send: object) -> None:
        pass

    with serving.listen("127.0.0.1", 0) as listening:
        serving.serve(nothing, listening, kept.clear)
    assert weak() is None

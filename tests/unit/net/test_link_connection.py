"""A link's connection: bytes in parts, between which others have their turns, all of them and in order."""

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from streamd.base.clock import ManualClock
from streamd.base.limits import LINK_PIECE_BYTES, LINK_TURN_US
from streamd.net.replica_link import LinkConnection


class World:
    """A loop, a transport and a link whose work takes time."""

    def __init__(self, us_per_piece: int) -> None:
        self.clock = ManualClock(0)
        self.us_per_piece = us_per_piece
        self.soon: list[Callable[[], None]] = []
        self.said: list[str | bytes] = []
        self.is_read = True
        self.pauses_after = -1  # bytes
        self.connection = LinkConnection(cast(Any, self), cast(Any, self), self.clock)
        self.connection.connection_made(cast(Any, self))

    def turn(self) -> int:
        """Run what is to run in the next turn; return how long it took in microseconds."""
        before = self.clock.monotonic_us()
        due, self.soon = self.soon, []
        for one in due:
            one()
        return self.clock.monotonic_us() - before

    @property
    def received_bytes(self) -> bytes:
        return b"".join(one for one in self.said if isinstance(one, bytes))

    # -- the loop -------------------------------------------------------------------------------------------------

    def call_soon(self, call: Callable[[], None]) -> None:
        self.soon.append(call)

    # -- the transport --------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        assert self.is_read
        self.is_read = False

    def resume_reading(self) -> None:
        assert not self.is_read
        self.is_read = True

    def abort(self) -> None:
        self.said.append("aborted")

    # -- the link -------------------------------------------------------------------------------------------------

    def connected(self) -> None:
        self.said.append("connected")

    def received(self, data: bytes) -> None:
        assert len(data) <= LINK_PIECE_BYTES
        self.said.append(data)
        self.clock.advance(self.us_per_piece / 1_000)
        if 0 <= self.pauses_after <= len(self.received_bytes):
            self.pauses_after = -1
            self.connection.pause_reading(True)

    def lost(self, reason: str) -> None:
        self.said.append(reason)


@pytest.mark.parametrize("us_per_piece", [0, 1_000, LINK_TURN_US, 4 * LINK_TURN_US])
def test_all_bytes_arrive_in_order_and_no_turn_is_long(us_per_piece):
    world, chance = World(us_per_piece), random.Random(us_per_piece)
    sent = b""
    for _ in range(20):
        data = chance.randbytes(chance.choice((1, 100, LINK_PIECE_BYTES, 250_000)))
        before = world.clock.monotonic_us()
        if world.is_read:
            sent += data
            world.connection.data_received(data)
        taken = world.clock.monotonic_us() - before
        assert max(taken, world.turn()) <= LINK_TURN_US + us_per_piece
    while world.soon:
        assert not world.is_read
        assert world.turn() <= LINK_TURN_US + us_per_piece
    assert world.received_bytes == sent
    assert world.is_read
    assert world.said[0] == "connected"


def test_what_has_come_before_the_end_is_handed_over_first():
    world = World(LINK_TURN_US)
    data = bytes(5 * LINK_PIECE_BYTES)
    world.connection.data_received(data)
    world.connection.connection_lost(None)
    assert world.said[-1] != "the connection was lost"
    while world.soon:
        world.turn()
    assert world.received_bytes == data
    assert world.said[-1] == "the connection was lost"


def test_a_link_that_pauses_gets_nothing_until_it_goes_on():
    world = World(0)
    world.pauses_after = 2 * LINK_PIECE_BYTES
    data = bytes(range(256)) * 400
    world.connection.data_received(data)
    world.turn()
    assert len(world.received_bytes) == 2 * LINK_PIECE_BYTES
    assert not world.is_read
    world.connection.pause_reading(False)
    while world.soon:
        world.turn()
    assert world.received_bytes == data
    assert world.is_read


def test_a_link_that_pauses_is_told_of_the_end_at_once():
    world = World(0)
    world.pauses_after = 1
    world.connection.data_received(bytes(3 * LINK_PIECE_BYTES))
    world.connection.connection_lost(OSError(5, "a fault"))
    assert world.said[-1] == "the connection was lost: a fault"


def test_a_closed_connection_hands_nothing_over():
    world = World(LINK_TURN_US)
    world.connection.data_received(bytes(5 * LINK_PIECE_BYTES))
    before = len(world.received_bytes)
    world.connection.close()
    world.connection.connection_lost(None)
    while world.soon:
        world.turn()
    assert len(world.received_bytes) == before
    assert world.said[-1] == "aborted"

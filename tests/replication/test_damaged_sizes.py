"""A damaged size in a copy of the whole state is noticed at once, and not when bytes do not come."""

import re

import pytest

from tests.replication.cluster import Node, World, state_of

SIZES = re.compile(rb"#streamd (?:files (\d+) (\d+)|file (\d+)) ")


def digits(number):
    """Return the places of the digits of the n-th line with a size in what a replica receives."""
    world = World()
    primary, replica = Node(world, 1), Node(world, 2)
    primary.ask("SET k new;SET l new")
    heard = hear(replica)
    replica.ask("REPLICAOF 127.0.0.1 1")
    world.link_up(replica, primary)
    found = list(SIZES.finditer(bytes(heard)))
    return [at for group in range(1, 4) for at in range(*found[number].span(group)) if at >= 0]


def hear(replica):
    heard = bytearray()
    take = replica.replication.link.received

    def received(data):
        heard.extend(data)
        take(data)

    replica.replication.link.received = received
    return heard


@pytest.mark.parametrize("digit", [b"0", b"9", b"x"])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_flipped_digit_in_a_size_ends_the_connection_at_once(number, digit):
    for place in digits(number):
        world = World()
        primary, replica = Node(world, 1), Node(world, 2)
        primary.ask("SET k new;SET l new")
        replica.ask("SET k old")
        old = state_of(replica)
        link = replica.replication.link
        take, seen = link.received, [0]

        def damaged(data, place=place, take=take, seen=seen):
            at = place - seen[0]
            seen[0] += len(data)
            if 0 <= at < len(data):
                data = data[:at] + digit + data[at + 1 :]
            take(data)

        link.received = damaged
        replica.begin("REPLICAOF 127.0.0.1 1")
        world.go_on(lambda link=link: link.attempts == 1 and link.state in ("connect", "connected"), ms_max=500)
        assert link.state == "connect" or digit in b"09"  # the digit that stood there
        if link.state == "connect":
            assert state_of(replica) == old
        link.received = take
        world.link_up(replica, primary)
        assert state_of(replica) == state_of(primary)

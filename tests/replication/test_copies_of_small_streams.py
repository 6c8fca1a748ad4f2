"""A replica that loads a copy of many small streams serves its clients meanwhile, and tells its primary so."""

from itertools import pairwise

import pytest

from streamd.durability.replay import Replay
from tests.replication.cluster import Node, World, state_of

COUNT = 1_000
# So long it takes to load a command here: the whole copy takes more than twice as long as the time-out.
COMMAND_US = 1_500
TIMEOUT_S = 2

pytestmark = pytest.mark.interpreted(reason="to load a command takes time")


class Pair:
    """A primary with many small streams, each of which is a run of a base, and a replica that takes a copy."""

    def __init__(self) -> None:
        self.world = World(7)
        self.primary = Node(self.world, 1, **{"repl-timeout": TIMEOUT_S})
        for number in range(COUNT):
            self.primary.begin(f"XADD s{number} IDMP p i * f v")
            self.primary.engine.end_turn()
        self.replica = Node(self.world, 2, **{"repl-timeout": TIMEOUT_S})
        self.replica.ask("XADD s0 9-9 f v")
        self.replica.ask("REPLICAOF 127.0.0.1 1")
        self.link = self.replica.replication.link
        self.world.go_on(lambda: self.link.state == "load")

    def begin_to_load(self, monkeypatch: pytest.MonkeyPatch) -> None:
        apply = Replay.apply

        def slowly(replay: Replay, db_index: int, words: list[bytes]) -> str | None:
            self.world.clock.looked_us += COMMAND_US
            return apply(replay, db_index, words)

        monkeypatch.setattr(Replay, "apply", slowly)


def test_readers_of_a_replica_are_served_between_slices_of_a_copy_of_small_streams(monkeypatch):
    pair = Pair()
    pair.begin_to_load(monkeypatch)
    reader = pair.replica.connect()
    longest_ms, last_ms = 0, pair.world.clock.monotonic_ms()
    while pair.link.state == "load":
        pair.world.step_or_wait()
        pair.replica.begin("EXISTS s0", reader)
        now_ms = pair.world.clock.monotonic_ms()
        longest_ms, last_ms = max(longest_ms, now_ms - last_ms), now_ms
    assert longest_ms <= 300 * COMMAND_US / 1_000
    pair.world.link_up(pair.replica, pair.primary)
    assert b"".join(pair.replica.replies[reader]).count(b":1") > 2 * COUNT // 300
    assert b"9-9" not in pair.replica.ask("XRANGE s0 - +")


def test_a_replica_acknowledges_while_it_loads_longer_than_the_time_out_and_needs_one_copy(monkeypatch):
    pair = Pair()
    pair.begin_to_load(monkeypatch)
    clock, network = pair.world.clock, pair.replica.network
    send, sent_ms = network.send, [clock.monotonic_ms()]

    def noted(data: bytes) -> None:
        if data.endswith(b"$3\r\nACK\r\n$2\r\n-1\r\n"):
            sent_ms.append(clock.monotonic_ms())
        send(data)

    monkeypatch.setattr(network, "send", noted)
    while pair.link.state == "load":
        pair.world.step_or_wait()
    sent_ms.append(clock.monotonic_ms())
    assert sent_ms[-1] - sent_ms[0] > 2_000 * TIMEOUT_S
    assert max(later - earlier for earlier, later in pairwise(sent_ms)) < 1_000 * TIMEOUT_S
    pair.world.link_up(pair.replica, pair.primary)
    assert (pair.link.copies, pair.link.attempts) == (1, 1)
    assert state_of(pair.replica) == state_of(pair.primary)

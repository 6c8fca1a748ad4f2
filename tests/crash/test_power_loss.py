"""Power is cut: what was not synced is lost, reordered or garbled; the server starts, and has what it must have."""

import pytest

from streamd.journal.recovery import DamagedError
from tests.crash.histories import play, random_turns
from tests.crash.restartable import Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

SEEDS = 200


def check(seed: int, policy: str) -> None:
    """Play a history, cut the power somewhere, start; twice, because the second loss meets what the first one left."""
    server = Restartable(appendfsync=policy, is_quick=seed % 2 == 0)
    for round in range(2):
        states = [dump(server.engine)]
        durable = 0
        for number, line in enumerate(random_turns(seed * 7 + round, 3 + seed % 13), 1):
            if (seed + number) % 9 == 0:
                server.send("BGREWRITEAOF")
                for _ in range(seed % 4):
                    server.engine.cron()
            play(server, [line])
            states.append(dump(server.engine))
            if policy == "always":
                durable = number
            elif (seed + number) % 3 == 0:
                server.clock.advance(1_000)
                server.cron()
                durable = number
        disk = server.disk.cut_power(seed)
        server = Restartable(disk, server.clock, appendfsync=policy, is_quick=seed % 2 == 0)
        found = dump(server.engine)
        kept = [number for number, state in enumerate(states) if state == found]
        # Inside a turn that was lost half, whole requests may be kept: then the state lies between two of ours.
        assert (kept and kept[-1] >= durable) or durable < len(states) - 1, (seed, kept, durable)
        _check_contents(found, states, durable)


def _check_contents(found, states, durable) -> None:
    """Every entry and value that is there was written so; what was durable and is in no later state changed is
    there.
    """
    entries, iids = {}, set()
    for state in states:
        for (db, key), (kind, _, value) in state.items():
            if kind == "Stream":
                entries.update({(db, key, entry_id): fields for entry_id, fields in value["entries"]})
                iids.update((db, key, *row) for row in value["iids"])
    for (db, key), (kind, _, value) in found.items():
        if kind == "Stream":
            for entry_id, fields in value["entries"]:
                assert entries.get((db, key, entry_id)) == fields
            assert iids >= {(db, key, *row) for row in value["iids"]}
    for place, (kind, _, value) in states[durable].items():
        if kind == "Stream" and all(place in state for state in states[durable:]):
            assert place in found
            kept = {entry_id for entry_id, _ in found[place][2]["entries"]}
            for entry_id, _ in value["entries"]:
                in_all = all(entry_id in dict(state[place][2]["entries"]) for state in states[durable:])
                assert entry_id in kept or not in_all


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_after_a_power_loss_the_server_starts_with_all_that_was_acknowledged(policy):
    for seed in range(SEEDS // 2):
        try:
            check(seed, policy)
        except DamagedError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_simulated_disk_loses_and_garbles_what_was_not_synced():
    kinds = set()
    for seed in range(50):
        disk = SimulatedDisk()
        file = disk.open("d/a", create=True)
        file.write_at(0, b"x" * 300)
        file.sync()
        disk.sync_directory("d")
        file.write_at(300, bytes(range(256)) * 2)
        data = bytes(disk.cut_power(seed).names["d/a"].data)
        assert data.startswith(b"x" * 300)
        kinds.add("nothing" if len(data) == 300 else "all" if data[300:] == bytes(range(256)) * 2 else "some")
    assert kinds == {"nothing", "all", "some"}

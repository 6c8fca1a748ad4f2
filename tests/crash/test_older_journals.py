"""A journal of an earlier version is loaded, and written on: nothing of the state that it had is missing."""

from ast import literal_eval
from pathlib import Path

import pytest

from streamd.base.clock import ManualClock
from streamd.resp.plain import plain
from streamd.resp.types import Raw
from tests.crash.restartable import INCREMENT, Restartable
from tests.crash.sample_journal import JOURNAL, samples
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump

SAMPLES = sorted(path.parent for path in Path(__file__).parent.glob("journals/*/*/state"))


def disk_of(sample: Path) -> SimulatedDisk:
    disk = SimulatedDisk()
    for file in sample.iterdir():
        if file.name != "state":
            disk.open(JOURNAL + file.name, create=True).write_at(0, file.read_bytes())
    return disk


def in_todays_words(kind, expires_ms, shown):
    """Say a part of a state as `dump` says it today: the first samples name Python's types, and have some RESP."""
    kind = {"Stream": "stream", "dict": "hash", "bytes": "string", "deque": "list"}.get(kind, kind)
    if kind == "stream" and isinstance(shown["info"][b"entries"], bytes):
        shown["info"][b"entries"] = plain(Raw(shown["info"][b"entries"]))
    return kind, expires_ms, shown


def test_there_are_samples():
    assert {sample.name for sample in SAMPLES} == set(samples())


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.parent.name}-{sample.name}")
def test_an_older_journal_makes_the_state_that_its_version_had(sample):
    now_ms, state = literal_eval((sample / "state").read_text(encoding="ascii"))
    state = {place: in_todays_words(*shown) for place, shown in state.items()}
    server = Restartable(disk_of(sample), ManualClock(now_ms))
    assert server.persistence.cut is None
    assert dump(server.engine) == state

    server.send("XADD", "s", "IDMP", "p9", "later", "*", "f", "v")
    written_on = dump(server.engine)
    again = server.restart()
    assert dump(again.engine) == written_on
    again.rewrite()
    assert dump(again.restart().engine) == written_on


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.name == "increment"])
def test_an_older_journal_that_is_torn_is_cut_and_written_on(sample):
    now_ms, _ = literal_eval((sample / "state").read_text(encoding="ascii"))
    size = len(disk_of(sample).names[INCREMENT].data)
    for place in range(size - 1_500, size, 37):
        disk = disk_of(sample)
        del disk.names[INCREMENT].data[place:]
        server = Restartable(disk, ManualClock(now_ms))
        server.send("SET", "written", "on")
        assert dump(server.restart().engine) == dump(server.engine)

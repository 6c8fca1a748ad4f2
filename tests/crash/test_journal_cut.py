"""A journal that ends too early: what is whole is kept, what was torn is named, and what is written then is kept."""

from tests.crash.cut_loop import CutLoop, cut_at
from tests.crash.histories import LAST_THREE, SMALL, play
from tests.crash.restartable import INCREMENT, Restartable
from tests.crash.simulated_disk import SimulatedDisk
from tests.crash.state_dump import dump


def recorded(lines: list[str]) -> tuple[SimulatedDisk, list[int], list]:
    """Return the disk behind a history, and for each turn where the journal ended and what the state was behind it."""
    server = Restartable()
    ends, states = [len(server.disk.names[INCREMENT].data)], [dump(server.engine)]
    for line in lines:
        play(server, [line])
        ends.append(len(server.disk.names[INCREMENT].data))
        states.append(dump(server.engine))
    return server.disk, ends, states


def test_a_cut_at_any_byte_of_the_last_three_turns_keeps_what_is_whole_and_all_that_is_written_then():
    disk, ends, states = recorded(SMALL + LAST_THREE)

    for length in range(ends[-4], ends[-1] + 1):
        turn = max(number for number, end in enumerate(ends) if end <= length)
        server = Restartable(cut_at(disk, length))
        assert dump(server.engine) == states[turn], length
        if length in ends:
            assert server.persistence.cut is None
        else:
            assert server.persistence.cut is not None
            assert server.persistence.cut.offset == ends[turn]
            assert server.persistence.cut.size == length

        assert server.send("XADD", "afterwards", "IDMP", "p", "i", "*", "f", "v") is not None
        again = server.restart()
        assert dump(again.engine) == dump(server.engine), length
        assert again.persistence.cut is None


def test_of_a_torn_pipeline_the_whole_requests_are_kept():
    line = " ; ".join(f"XADD s IDMP p i{number} * n {number}" for number in range(4))
    disk, ends, _ = recorded([*SMALL, line])
    whole = set()
    for length in range(ends[-2], ends[-1] + 1):
        server = Restartable(cut_at(disk, length))
        stream = server.engine.state.keyspace[0].stream(b"s")
        entries = [fields for _, fields in stream.log.iterate() if fields[0] == b"n"]
        kept = [int(fields[1]) for fields in entries][3:]
        assert kept == list(range(len(kept)))
        assert {iid for pid, iid, _ in server.engine.state.keyspace[0].stream(b"s").idmp if pid == b"p"} == {
            b"i%d" % number for number in kept[-4:]
        }
        whole.add(len(kept))
        length_before = len(server.engine.state.keyspace[0].stream(b"s"))
        server.send("XADD", "s", "IDMP", "p", "new", "*", "f", "v")
        again = server.restart()
        assert len(again.engine.state.keyspace[0].stream(b"s")) == length_before + 1
        assert again.persistence.cut is None
    assert whole == set(range(5))


def test_a_cut_in_a_cut_is_cut_again():
    line = " ; ".join(f"SET k{number} v" for number in range(6))
    disk, ends, _ = recorded([line])
    torn = Restartable(cut_at(disk, ends[-1] - 40))
    kept = dump(torn.engine)
    content = torn.disk.names[INCREMENT].data
    for length in range(content.rindex(b"#streamd cut"), len(content) + 1):
        assert dump(Restartable(cut_at(torn.disk, length)).engine) == kept


def test_a_long_journal_cut_anywhere_starts_with_what_is_whole():
    cuts, different = CutLoop().run(step=1_499)
    assert cuts > 600
    assert different == []


def test_a_cut_that_gives_anything_but_what_was_whole_is_counted():
    loop = CutLoop()
    del loop.entries[10]
    cuts, different = loop.run(step=100_000)
    assert len(different) == cuts == 10

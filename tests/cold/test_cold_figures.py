"""Figures of cold entries in INFO and the metrics, and what is refused while entries cannot be moved."""

import pytest

from streamd.connected.cold_figures import cold_figures
from streamd.engine.memory import MemoryLimit
from tests.cold.cold_server import ColdSession, evict, make_cold
from tests.session import Error, Session

OOM = Error("OOM command not allowed when used memory > 'maxmemory'.")


def info(session: Session) -> dict[str, str]:
    lines = session.do("INFO persistence").decode().splitlines()
    return dict(line.split(":", 1) for line in lines if line.startswith("cold_"))


def test_without_the_option_there_are_no_figures(engine):
    assert info(engine) == {}
    assert cold_figures(engine.state) == {}


def test_info_counts_files_blocks_and_waiting_clients():
    session = ColdSession()
    file = session.cool(b"s")
    found = info(session)
    assert found["cold_files"] == "1"
    assert int(found["cold_bytes"]) == file.size > 80_000
    assert found["cold_cache_bytes"] == "0"
    assert int(found["cold_unwritten_bytes"]) > 0
    assert found["cold_waiting_clients"] == "0"
    other = session.connect()
    other.send([b"XRANGE", b"s", b"1-0", b"1-0"])
    misses = int(info(session)["cold_block_misses"])
    assert info(session)["cold_waiting_clients"] == "1"
    session.read()
    after = info(session)
    assert after["cold_waiting_clients"] == "0"
    assert int(after["cold_block_hits"]) > int(found["cold_block_hits"])
    assert int(after["cold_block_misses"]) == misses
    assert int(after["cold_cache_bytes"]) > 30_000
    session.store.move_failed = "No space\r\nleft: x"
    assert info(session)["cold_move_failed"] == "No space left: x"


def test_a_file_that_nothing_needs_does_not_count():
    session = ColdSession()
    session.cool(b"s")
    session.do("DEL s")
    session.store.small.clear()  # which the mover looks through
    session.store.settle()
    assert (info(session)["cold_files"], info(session)["cold_bytes"]) == ("0", "0")


def test_the_metrics_have_the_same_figures():
    pytest.importorskip("prometheus_client")
    from streamd.net.exposition import expose
    from tests.cold.cold_server import ColdHost

    host = ColdHost()
    host.cool(b"s", 1_000)
    host.measures = None
    text: list[str] = []
    for _ in expose(host, text.append):  # type: ignore[arg-type]
        pass
    lines = "".join(text).splitlines()
    assert "streamd_cold_files 1.0" in lines
    assert 'streamd_cold_move_failed{error=""} 0.0' in lines
    assert sum(line.startswith("streamd_cold_") for line in lines) >= 9


def test_growth_is_refused_while_far_more_waits_than_the_limit():
    session = ColdSession()
    session.fill(b"s", 300, 1_000)
    session.store.set_limit(90_000)
    session.engine.cron()
    assert session.do("XADD s 300-1 f v") == b"300-1"  # the disk works: so little may wait for it
    session.store.move_failed = "No space left on device"
    session.engine.cron()
    assert session.do("XADD s * f v") == OOM
    assert session.do("XLEN s") == 301
    make_cold(session.engine, b"s")
    session.engine.cron()
    assert session.do("XADD t 1-1 f v") == b"1-1"
    session.fill(b"u", 300, 1_000)
    session.engine.cron()
    assert session.do("XADD t * f v") == OOM
    session.do("CONFIG SET maxmemory 100gb")
    assert session.do("XADD t * f v") != OOM
    session.do("CONFIG SET maxmemory 0")
    session.store.set_limit(0)
    session.engine.cron()
    assert session.do("XADD t * f v") != OOM


def test_what_a_start_has_left_to_be_moved_refuses_nobody_while_it_becomes_less(monkeypatch):
    monkeypatch.setattr("streamd.engine.memory._SLOW_DISK_BYTES", 0)
    session = ColdSession()
    for key in b"abcd":
        session.fill(b"%c" % key, 300, 1_000)
    session.store.set_limit(90_000)
    session.engine.cron()
    for key in b"abc":
        session.clock.advance(5_000)
        make_cold(session.engine, b"%c" % key)
        session.engine.cron()
        assert session.do("XADD t * f v") != OOM
    session.clock.advance(5_000)
    session.engine.cron()
    assert session.do("XADD t * f v") == OOM


test_what_a_start_has_left_to_be_moved_refuses_nobody_while_it_becomes_less = pytest.mark.interpreted(
    reason="replaces a number"
)(test_what_a_start_has_left_to_be_moved_refuses_nobody_while_it_becomes_less)


def test_memory_of_what_has_gone_to_the_disk_is_given_back(monkeypatch):
    monkeypatch.setattr("streamd.engine.memory._MOVED_BYTES", 100_000)
    session = ColdSession()
    given: list[int] = []
    limit = MemoryLimit(session.state, give_back=lambda: given.append(1))
    session.fill(b"s", 300, 1_000)
    limit.check()
    assert not given
    make_cold(session.engine, b"s")
    evict(session.engine)
    session.clock.advance(1_000)
    session.engine.cron()
    limit.check()
    limit.check()
    assert given == [1]


test_memory_of_what_has_gone_to_the_disk_is_given_back = pytest.mark.interpreted(reason="replaces a number")(
    test_memory_of_what_has_gone_to_the_disk_is_given_back
)

"""maxmemory: growth is refused above it, everything else goes on."""

from streamd.engine.memory import MemoryLimit
from tests.session import Error, Session

OOM = Error("OOM command not allowed when used memory > 'maxmemory'.")


class Memory:
    """A process that has so much in use, of which `spare` can be given back."""

    def __init__(self, session: Session) -> None:
        self.used, self.spare, self.given_back = 1_000_000, 0, 0
        session.engine.memory_limit = MemoryLimit(session.state, lambda: self.used, self._give_back)

    def _give_back(self) -> None:
        self.given_back += 1
        self.used, self.spare = self.used - self.spare, 0


def test_growth_is_refused_above_the_limit_and_reads_and_deletes_go_on(engine: Session):
    memory = Memory(engine)
    engine.do("XADD s 1-1 f v")
    engine.do("XGROUP CREATE s g 0")
    engine.do("XREADGROUP GROUP g c STREAMS s >")
    assert engine.do("CONFIG SET maxmemory 999999") == "OK"
    for request in ("XADD s 2-1 f v", "SET k v", "HSET h f v", "xadd s IDMP p i * f v"):
        assert engine.do(request) == OOM, request
    assert engine.do("XLEN s") == 1
    assert engine.do("XACK s g 1-1") == 1
    assert engine.do("XDEL s 1-1") == 1
    assert engine.do("XTRIM s MAXLEN 0") == 0
    assert engine.do("DEL s") == 1
    assert engine.do("CONFIG SET maxmemory 1mb") == "OK"
    assert engine.do("SET k v") == "OK"
    memory.used = 2_000_000
    engine.sweep()
    assert engine.do("SET k v") == OOM
    assert engine.do("CONFIG SET maxmemory 0") == "OK"
    assert engine.do("SET k v") == "OK"


def test_a_refused_command_breaks_its_transaction(engine: Session):
    Memory(engine)
    engine.do("CONFIG SET maxmemory 1")
    engine.do("MULTI")
    assert engine.do("SET k v") == OOM
    assert engine.do("EXEC") == Error("EXECABORT Transaction discarded because of previous errors.")


def test_free_pages_are_given_back_before_anything_is_refused_and_once_a_second_at_most(engine: Session):
    memory = Memory(engine)
    memory.spare = 600_000
    engine.do("CONFIG SET maxmemory 500000")
    assert engine.do("SET k v") == "OK"
    memory.used, memory.spare = 900_000, 600_000
    engine.sweep()
    assert (engine.do("SET k v"), memory.given_back) == (OOM, 1)
    engine.clock.advance(1_000)
    engine.sweep()
    assert (engine.do("SET k v"), memory.given_back) == ("OK", 2)


def test_a_duplicate_is_refused_as_well(engine: Session):
    Memory(engine)
    engine.do("XADD s IDMP p i * f v")
    engine.do("CONFIG SET maxmemory 1")
    assert engine.do("XADD s IDMP p i * f v") == OOM


def test_exec_is_refused_when_what_is_queued_would_be(engine: Session):
    other = engine.connect()
    for line in ("MULTI", "SET k v", "GET k"):
        engine.do(line)
    for line in ("MULTI", "GET k"):
        other.do(line)
    Memory(engine)
    admin = engine.connect()
    admin.do("CONFIG SET maxmemory 1")
    text = "EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'."
    assert engine.do("EXEC") == Error(text)
    assert other.do("EXEC") == [None]


def test_while_memory_is_full_a_transaction_takes_what_would_run_outside_of_one(engine: Session):
    Memory(engine)
    engine.do("SET k v")
    engine.do("CONFIG SET maxmemory 1")
    for line in ("MULTI", "GET k", "DEL k", "CONFIG SET maxmemory 0", "SET k w"):
        reply = engine.do(line)
    assert reply == OOM
    assert engine.do("DISCARD") == "OK"
    for line in ("MULTI", "GET k", "DEL k"):
        engine.do(line)
    assert engine.do("EXEC") == [b"v", 1]

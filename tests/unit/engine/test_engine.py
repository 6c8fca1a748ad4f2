"""The engine: turns, and what is counted of them."""

from streamd.catalog import Batch
from streamd.engine.gathering import RUN_MIN
from tests.session import Error, Session


def test_an_error_that_ends_a_wait_counts_as_a_failure_of_its_command(engine: Session):
    engine.do("XGROUP CREATE s g $ MKSTREAM")
    reader = engine.connect()
    reader.send(["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"])
    engine.do("XGROUP DESTROY s g")
    (reply,) = reader.replies()
    assert isinstance(reply, Error)
    assert reply.text.startswith("NOGROUP ")
    assert b"failed_calls=1" in next(line for line in engine.do("INFO commandstats").split() if b"xreadgroup" in line)
    assert b"errorstat_NOGROUP:count=1" in engine.do("INFO errorstats")


def test_a_bug_in_a_batch_is_answered_to_all_whom_it_concerns_and_nothing_is_done_twice(engine: Session, monkeypatch):
    engine.do("XADD s 1-1 f v")

    def half(context, parts):
        context.stream(b"s").log.append(5 << 64, [b"f", b"v"])
        raise RuntimeError("planted")

    monkeypatch.setattr(engine.engine.commands[b"xadd"], "batch", Batch(half))
    engine.send(*[["XADD", "s", "*", "f", "v"]] * 3, ["PING"])
    assert engine.replies() == [Error("ERR internal error")] * 3 + ["PONG"]
    assert engine.state.stats.internal_errors == 1
    assert engine.do("XLEN s") == 2
    engine.state.stats.internal_errors = 0


def test_a_bug_in_a_batch_of_several_clients_is_answered_to_each(engine: Session, monkeypatch):
    engine.do("XADD s 1-1 f v")
    monkeypatch.setattr(engine.engine.commands[b"xadd"], "batch", Batch(lambda context, parts: 1 // 0))
    clients = [engine.connect() for _ in range(RUN_MIN // 2)]
    for client in clients:
        assert engine.engine.gathering.take(client.client, [[b"XADD", b"s", b"*", b"f", b"v"]] * 2)
    engine.engine.end_turn()
    assert [client.replies() for client in clients] == [[Error("ERR internal error")] * 2] * len(clients)
    assert engine.do("PING") == "PONG"
    engine.state.stats.internal_errors = 0


def test_a_bug_in_what_the_cron_does_keeps_nothing_else_from_being_done(engine: Session, monkeypatch):
    def planted(*arguments):
        raise RuntimeError("planted")

    engine.do("SET k v PX 5")
    monkeypatch.setattr(engine.state.sweeper, "run", planted)
    engine.clock.advance(10)
    engine.engine.cron()
    assert engine.state.stats.internal_errors == 1
    assert not engine.state.keyspace[0].values
    engine.state.stats.internal_errors = 0


def test_a_bug_in_the_attempt_of_a_blocked_command_is_answered(engine: Session, monkeypatch):
    reader = engine.connect()
    reader.send(["XREAD", "BLOCK", "0", "STREAMS", "s", "$"])
    reader.client.waiter.attempt = lambda: 1 // 0
    engine.do("XADD s * f v")
    assert reader.replies() == [Error("ERR internal error")]
    engine.state.stats.internal_errors = 0


def test_a_value_that_is_no_reply_is_answered_as_a_bug(engine: Session, monkeypatch):
    monkeypatch.setattr(engine.engine.commands[b"xlen"], "handler", lambda context, args: object())
    assert engine.do("XLEN s") == Error("ERR internal error")
    engine.state.stats.internal_errors = 0


def test_what_a_pipeline_restricts_holds_from_the_next_command_on(engine: Session):
    engine.engine.memory_limit._measure = lambda: 2
    engine.send(["CONFIG", "SET", "maxmemory", "1"], ["SET", "k", "v"], ["CONFIG", "SET", "maxmemory", "0"], ["PING"])
    oom = Error("OOM command not allowed when used memory > 'maxmemory'.")
    assert engine.replies() == ["OK", oom, "OK", "PONG"]


def test_a_front_end_calls_the_engine_with_words_and_gets_values(engine: Session):
    client = engine.engine.connect()
    call = lambda *words: engine.engine.call(client, [word.encode() for word in words])  # noqa: E731
    assert call("XADD", "s", "1-1", "f", "v") == b"1-1"
    assert call("XRANGE", "s", "-", "+") == [[b"1-1", [b"f", b"v"]]]
    assert call("XREAD", "STREAMS", "s", "0").items == [(b"s", [[b"1-1", [b"f", b"v"]]])]
    assert call("HSET", "h", "a", "1") == 1
    assert call("HGETALL", "h") == {b"a": b"1"}
    assert str(call("XLEN")) == "ERR wrong number of arguments for 'xlen' command"
    left: list[object] = []
    client.flush = lambda: left.append("the turn has ended")
    assert call("SET", "k", "v") == "OK"
    assert left == []
    engine.engine.end_turn()
    assert left == ["the turn has ended"]

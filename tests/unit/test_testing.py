"""The embedded server: a day's window in a moment."""

import gc
import math
import weakref

import pytest
import redis

from streamd.testing import EmbeddedServer


def test_a_window_of_a_day_passes_without_waiting(streamd_server: EmbeddedServer, streamd_client: redis.Redis):
    first = streamd_client.xadd("s", {"f": "v"}, idmp=("p", "order-1"))
    streamd_client.execute_command("XCFGSET", "s", "IDMP-DURATION", 86_400)
    first = streamd_client.xadd("s", {"f": "v"}, idmp=("p", "order-1"))

    streamd_server.advance(seconds=86_399.999)
    assert streamd_client.xadd("s", {"f": "v"}, idmp=("p", "order-1")) == first
    streamd_server.advance(milliseconds=1)
    assert streamd_client.xadd("s", {"f": "v"}, idmp=("p", "order-1")) != first


def test_moving_the_clock_ends_a_blocked_read(streamd_server: EmbeddedServer):
    client = streamd_server.client(socket_timeout=60)
    connection = client.connection_pool.get_connection()
    connection.send_command("XREAD", "BLOCK", "60000", "STREAMS", "s", "$")
    other = streamd_server.client()
    while other.info("clients")["blocked_clients"] != 1:
        pass
    streamd_server.advance(seconds=60)
    assert connection.read_response() is None
    client.connection_pool.release(connection)


def test_a_clock_goes_by_whole_milliseconds_back_and_forth_and_to_no_time_that_is_none():
    with EmbeddedServer() as server:
        client = server.client(decode_responses=True)
        before = server.clock.now_ms()
        server.advance(seconds=0.25, milliseconds=1.0)
        assert client.xadd("s", {"f": "v"}) == f"{before + 251}-0"
        server.advance(seconds=-1)
        assert client.xadd("s", {"f": "v"}) == f"{before + 251}-1"
        for wrong in (math.nan, math.inf, 1e30, -1e30):
            with pytest.raises(ValueError, match="the clock cannot be"):
                server.advance(seconds=wrong)
        assert client.xadd("s", {"f": "v"}) == f"{before + 251}-2"
        assert server.internal_errors == 0


def test_a_server_that_does_not_run_says_so():
    server = EmbeddedServer()
    with pytest.raises(RuntimeError, match="this server does not run"):
        server.advance(seconds=1)
    with server, pytest.raises(RuntimeError, match="started already; make another EmbeddedServer"):
        server.start()
    with pytest.raises(RuntimeError, match="this server does not run"):
        server.advance(seconds=1)


def test_options_are_redis_names_with_underscores():
    with EmbeddedServer(stream_idmp_duration=5) as server:
        client = server.client(decode_responses=True)
        assert client.config_get("stream-idmp-duration") == {"stream-idmp-duration": "5"}


def test_two_servers_live_side_by_side():
    with EmbeddedServer() as one, EmbeddedServer() as two:
        assert one.port != two.port
        one.client().set("k", "1")
        assert two.client().get("k") is None


@pytest.mark.parametrize("script", ["return redis.call('XLEN', 's')", "return #KEYS"])
def test_a_server_that_has_run_scripts_leaves_no_memory_behind(script):
    with EmbeddedServer() as server:
        client = server.client()
        client.xadd("s", {"f": "v"})
        client.eval(script, 0)
        client.function_load("#!lua name=l\nredis.register_function('f', function() return 1 end)")
        client.fcall("f", 0)
        assert server._server is not None
        state = weakref.ref(server._server.engine.state.stats)
    del server, client
    gc.collect()
    assert state() is None

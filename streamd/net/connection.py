"""One client's connection: bytes from a transport to the engine, replies back, and backpressure both ways."""

import asyncio
import select
from typing import Final, cast

from streamd.base.limits import (
    AUTHENTICATED,
    BEFORE_AUTH,
    INPUT_TURN_BYTES,
    INPUT_WAITING_BYTES_MAX,
    LAST_TURN_US,
    OUTPUT_BYTES_MAX,
    OUTPUT_PAUSE_BYTES,
    OUTPUT_PUBSUB_BYTES_MAX,
    OUTPUT_STALLED_MS_MAX,
    RequestLimits,
)
from streamd.base.log import log
from streamd.catalog import Context
from streamd.net.net_ports import ConnectionHost
from streamd.resp.decoder import Decoder
from streamd.resp.encoder import encode
from streamd.resp.fast_decoder import FastDecoder
from streamd.resp.template import RequestColumns

PROTECTED: Final = (
    "DENIED streamd is running in protected mode because protected mode is enabled and no password is set for the "
    "default user. In this mode connections are only accepted from the loopback interface. If you want to connect "
    "from external computers, either start the server with --requirepass PASSWORD, or with --protected-mode no if "
    "the network is trusted."
)


class _Nowhere:
    """The transport of a lost connection while its last requests are executed: it discards output."""

    def write(self, data: bytes) -> None:
        """Drop it."""

    def writelines(self, pieces: list[bytes]) -> None:
        """Drop them."""

    def get_write_buffer_size(self) -> int:
        """Return 0: nothing waits."""
        return 0

    def close(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


_NOWHERE: Final = cast(asyncio.Transport, _Nowhere())


class Connection:
    """The thin I/O side of a client, an asyncio.Protocol; everything it needs of the world is a transport.

    (It has no base: compiled, a class with an interpreted one looks up whatever it has by name.)

    Reading stops while the client does not read its replies, and while it is blocked and keeps sending. It goes on if
    such a client has taken no byte for a second and has sent more: it reads when it has sent all, as redis-py does.

    The end of input takes effect behind all requests that came before it: they are executed, whether the client can
    still read the replies (a half-closed connection) or not (a lost one). As in Redis a blocked client is disconnected
    at once, and the requests behind the blocking one are dropped.
    """

    __slots__ = (
        "_closing",
        "_decoder",
        "_ended",
        "_limits",
        "_lost",
        "_paused_reading",
        "_reads_on",
        "_server",
        "_taken_bytes",
        "_taken_ms",
        "_transport",
        "client",
    )

    def __init__(self, server: ConnectionHost) -> None:
        self._server = server
        self._paused_reading = False
        self._reads_on = False  # though output waits: the client reads only when it has sent all
        self._closing = False
        self._ended = False
        self._lost = False
        self._taken_bytes = -1  # of the output, by the client's system, as of `_taken_ms`
        self._taken_ms = 0
        self._limits = AUTHENTICATED
        self.client: Context | None = None

    # -- asyncio's callbacks --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=OUTPUT_PAUSE_BYTES)
        engine = self._server.engine
        state = engine.state
        peer = transport.get_extra_info("peername")
        refusal = None
        if len(state.clients) >= state.config.integer("maxclients"):
            refusal = "ERR max number of clients reached"
        elif state.config["protected-mode"] and state.users.default.needs_no_password and not _is_loopback(peer):
            refusal = PROTECTED
        if refusal is not None:
            state.stats.rejected_connections += 1
            self._closing = True
            self._transport.write(f"-{refusal}\r\n".encode())
            self._transport.close()
            return
        here = transport.get_extra_info("sockname")
        client = engine.connect(_address(peer) or _address(here), _address(here))
        client.flush = self.flush
        client.kill = self.kill
        client.resume = self.resume
        client.unsent = self._transport.get_write_buffer_size
        self.client = client
        self._limits = RequestLimits(
            bulk_bytes_max=state.config.integer("proto-max-bulk-len"),
            request_bytes_max=state.config.integer("client-query-buffer-limit"),
        )
        self._decoder: Decoder = FastDecoder(self._limits) if client.authenticated else Decoder(BEFORE_AUTH)
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        client = self.client
        if self._closing or client is None or client.close_soon:
            return
        client.bytes_in += len(data)
        decoder = self._decoder
        if client.waiter is not None or client.backlog:
            decoder.feed(data)
            if decoder.buffered_bytes > INPUT_WAITING_BYTES_MAX:
                self._pause_reading()
            return
        if client.authenticated and isinstance(decoder, FastDecoder):
            # The hot path: everything that is not an error or a new client.
            engine = self._server.engine
            gathering = engine.gathering
            is_shared = gathering.is_shared
            requests = decoder.receive(data, is_shared)
            if isinstance(requests, RequestColumns):
                requests = [] if gathering.take_columns(client, requests) else requests.rows()
            if requests and not (is_shared and decoder.error is None and gathering.take(client, requests)):
                engine.run(client, requests)
            if decoder.error is not None:
                self._take()
        else:
            decoder.feed(data)
            self._take()
        if client.backlog and not _waits(client):
            self._pause_reading()  # the loop would go on reading before it lets others have their turn
        elif len(data) > INPUT_TURN_BYTES:
            self._pause_reading()
            self._server.resume_soon(self)
        self._server.end_turn()

    def eof_received(self) -> bool:
        """The client has closed its sending side; return whether the transport stays open for the replies.

        The client may still read (`printf 'PING\\r\\n' | nc -N`).
        """
        if self._closing or self.client is None:
            return False
        self._end_input()
        if self._transport.get_extra_info("sslcontext") is not None:
            self._answer_now()
            return False
        self._server.end_turn()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """The transport is gone: the client is disconnected once the requests that it sent are executed."""
        client = self.client
        if client is not None and not self._closing:
            self._lose_transport()
            self._end_input()
            self._server.end_turn()
            if not client.close_soon:
                return
        self._closing = True
        if client is not None:
            self._server.engine.disconnect(client)
            self._server.connections.discard(self)
            client.leave_connection()

    def pause_writing(self) -> None:
        """The client does not read: take no more requests from it."""
        self._pause_reading()

    def resume_writing(self) -> None:
        """The client has read: go on."""
        self._reads_on = False
        if self._closing or self.client is None:
            return
        self.resume()
        self._server.end_turn()

    # -- the way in -----------------------------------------------------------------------------------------------

    def _take(self) -> None:
        """Execute the complete requests that were received."""
        client = self.client
        assert client is not None
        self._fit_limits(client)
        if not client.authenticated and not self._take_before_auth(client):
            return
        engine, decoder = self._server.engine, self._decoder
        if client.authenticated and not client.close_soon:
            requests = decoder.take()
            if requests:
                engine.run(client, requests)
        if decoder.error is not None and not client.close_soon and client.waiter is None and not client.backlog:
            engine.gathering.run()
            client.out.append(encode(decoder.error, client.protocol))
            client.close_soon = True
            engine.state.wants_flush(client)

    def _fit_limits(self, client: Context) -> None:
        """Give a client's decoder the limits of its present state; several commands log a client in, RESET and others
        out.

        (The type of the decoder tells its limits: so the hot path asks no more than it must.)
        """
        decoder = self._decoder
        if client.authenticated != isinstance(decoder, FastDecoder) and decoder.error is None:
            rest = decoder.rest()
            self._decoder = FastDecoder(self._limits, rest) if client.authenticated else Decoder(BEFORE_AUTH, rest)

    def _take_before_auth(self, client: Context) -> bool:
        """Execute one request at a time until one authenticates, which lifts the limits for the next; return whether
        there is more to do.
        """
        decoder = self._decoder
        while not client.authenticated and not client.close_soon:
            request = decoder.next()
            if request is None:
                break
            self._server.engine.run(client, [request])
        self._fit_limits(client)
        return client.authenticated or decoder.error is not None

    def resume(self) -> None:
        """Process input that arrived while the client was blocked or did not read."""
        client = self.client
        assert client is not None
        if not (self._closing or client.close_soon or client.waiter is not None or self._is_choked()):
            self._go_on()
        if self._ended:
            self._close_at_the_end()

    def _go_on(self) -> None:
        """Execute the next part of the backlog; behind its last part, take received bytes and resume reading."""
        client, decoder = self.client, self._decoder
        assert client is not None
        if client.backlog:
            if self._lost and client.unfinished is not None:
                client.unfinished.is_made = True  # nobody reads the rest
            self._server.engine.make_slices(client)
        if _goes_on(client) and (decoder.buffered_bytes or decoder.error is not None):
            self._take()
        if _goes_on(client) and self._paused_reading and not self._ended and not self._is_choked():
            self._paused_reading = False
            self._transport.resume_reading()

    def _end_input(self) -> None:
        """Execute received requests, or begin to, and have the connection closed behind them."""
        self._server.engine.gathering.run()
        self._ended = True
        self.resume()

    def _close_at_the_end(self) -> None:
        """Close behind the last reply once no request is left, or at once for a blocked client.

        (One whose script was interrupted only looks blocked.)
        """
        client, engine = self.client, self._server.engine
        assert client is not None
        waiter = client.waiter
        is_blocked = waiter is not None and not waiter.is_reading
        is_left = engine.scripts.runs_for(client) if is_blocked else bool(client.backlog)
        if not is_left:
            client.close_soon = True
            engine.state.wants_flush(client)

    def _answer_now(self) -> None:
        """Execute the remaining requests and let the replies leave, for a transport that takes no later ones.

        asyncio has no half-closed TLS: it closes behind `eof_received`. Other clients have no turn meanwhile, so this
        ends after LAST_TURN_US: the rest is executed in turns as for a lost connection.
        """
        client, engine = self.client, self._server.engine
        assert client is not None
        until_us = engine.clock.monotonic_us() + LAST_TURN_US
        engine.end_turn()
        while client.backlog and engine.clock.monotonic_us() < until_us:
            engine.absences.finish(client)
            if _waits(client):
                break
            self._go_on()
            self._close_at_the_end()
            engine.end_turn()
        if engine.state.journal is not None:
            engine.state.journal.wait_for(client)
        if not self._closing:
            self._lose_transport()

    def _lose_transport(self) -> None:
        self._lost = True
        self._transport = _NOWHERE

    def _pause_reading(self) -> None:
        if not self._paused_reading and not self._closing and not self._ended:
            self._paused_reading = True
            self._transport.pause_reading()

    def _is_choked(self) -> bool:
        return not self._reads_on and self._transport.get_write_buffer_size() > OUTPUT_PAUSE_BYTES

    # -- the way out ----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send the turn's output."""
        client = self.client
        assert client is not None
        out = client.out
        if out:
            if client.out_bytes:
                self._send_large(out[:])
                client.out_bytes = 0
            elif not self._closing:
                # The hot path.
                data = out[0] if len(out) == 1 else b"".join(out)
                client.bytes_out += len(data)
                self._transport.write(data)
                if self._transport.get_write_buffer_size() > OUTPUT_PAUSE_BYTES:
                    self._limit_waiting_output()
            out.clear()
        elif client.unfinished is not None:
            self._limit_waiting_output()  # pushes wait behind the reply
        if client.close_soon:
            self.close()
        elif client.backlog and client.waiter is None and not self._closing and not self._is_choked():
            self._server.resume_soon(self)

    def _send_large(self, pieces: list[bytes]) -> None:
        """Hand large output to the transport without joining it.

        The kernel takes the pieces from where they are: copying a megabyte of them into new memory first costs as much
        again as sending it, twice that in page faults.
        """
        client = self.client
        assert client is not None
        if self._closing:
            return
        client.bytes_out += sum(map(len, pieces))
        self._transport.writelines(pieces)
        self._limit_waiting_output()

    def _limit_waiting_output(self) -> None:
        client, transport = self.client, self._transport
        assert client is not None
        waiting = transport.get_write_buffer_size()
        if client.unfinished is not None:
            waiting += client.unfinished.waiting_bytes
        if waiting > OUTPUT_BYTES_MAX or (waiting > OUTPUT_PUBSUB_BYTES_MAX and client.subscription_count()):
            log.warning(
                "client-output-limit", "client %s closed: %d bytes of output wait to be read", client.address, waiting
            )
            self.abort()

    def close(self) -> None:
        """Close once all output has been sent."""
        if not self._closing:
            self._closing = True
            self._transport.close()
            self._end_lost()

    def kill(self) -> None:
        """Close without waiting for a client that does not read."""
        self.close()
        if self._transport.get_write_buffer_size():
            self._transport.abort()

    def close_if_left(self, monotonic_ms: int) -> None:
        """Close a connection whose client is gone: no request for longer than `timeout`, blocked and disconnected, or
        input ended and replies unread. Read on from a client that sends, and reads nothing meanwhile.

        While the server does not read from a client, it cannot see the end of input.
        """
        client = self.client
        if client is None:
            return
        if not (self._ended or self._closing or self._paused_reading):
            self._taken_bytes = -1
        elif stalled_ms := self._stalled_ms():
            is_last = self._ended or self._closing or _has_hung_up(self._transport)
            if is_last and stalled_ms >= OUTPUT_STALLED_MS_MAX:
                log.warning("client-not-reading", "client %s closed: it does not read its last replies", client.address)
                self.abort()
            elif not is_last and self._is_choked() and _has_sent(self._transport):
                self._reads_on = True
                self.resume()
                self._server.end_turn()
        if self._closing:
            return
        if client.waiter is not None:
            if self._paused_reading and not client.waiter.is_reading and _has_hung_up(self._transport):
                self.abort()
            return
        timeout_s = self._server.engine.state.config.integer("timeout")
        if timeout_s and monotonic_ms - client.last_ms > timeout_s * 1000 and not client.subscription_count():
            log.info("client-idle", "closing idle client %s", client.address)
            self.kill()

    def _stalled_ms(self) -> int:
        """Return for how long, of looks one behind the other, the client has taken nothing of the output that waits."""
        assert self.client is not None
        now_ms = self._server.engine.clock.monotonic_us() // 1000
        waiting_bytes = self._transport.get_write_buffer_size()
        taken_bytes = self.client.bytes_out - waiting_bytes
        if not waiting_bytes or taken_bytes != self._taken_bytes:
            self._taken_bytes, self._taken_ms = taken_bytes, now_ms
        return now_ms - self._taken_ms

    def abort(self) -> None:
        """Close at once, and drop unsent output."""
        self._closing = True
        self._transport.abort()
        self._end_lost()

    def _end_lost(self) -> None:
        """Do the part of a close that a lost transport does not repeat."""
        if self._lost:
            self.connection_lost(None)


def _address(name: object) -> str:
    if isinstance(name, tuple) and len(name) >= 2:
        return f"[{name[0]}]:{name[1]}" if ":" in str(name[0]) else f"{name[0]}:{name[1]}"
    return f"{name}:0" if name else ""


def _has_hung_up(transport: asyncio.Transport) -> bool:
    """Return whether the client has disconnected, though its last bytes are not read yet."""
    return hasattr(select, "POLLRDHUP") and _is_set(transport, select.POLLRDHUP)


def _has_sent(transport: asyncio.Transport) -> bool:
    """Return whether there are bytes of the client that are not read yet."""
    return _is_set(transport, select.POLLIN)


def _is_set(transport: asyncio.Transport, event: int) -> bool:
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(sock.fileno(), event)
    return bool(poll.poll(0))


def _waits(client: Context) -> bool:
    """Return whether a client waits now: compiled code would keep the value from before a call."""
    return client.waiter is not None


def _goes_on(client: Context) -> bool:
    """Return whether a client neither waits nor has requests that wait for their turn."""
    return client.waiter is None and not client.backlog


def _is_loopback(peer: object) -> bool:
    if isinstance(peer, tuple) and peer:
        host = str(peer[0])
        return host.startswith(("127.", "::ffff:127.")) or host == "::1"
    return True  # a Unix socket, or a test's transport

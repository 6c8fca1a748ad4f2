"""One client's connection: bytes from a transport to the engine, replies back, and back-pressure on both ways."""

import asyncio
import select
from typing import Final, Protocol, cast

from streamd.base.limits import (
    AUTHENTICATED,
    BEFORE_AUTH,
    INPUT_TURN_BYTES,
    INPUT_WAITING_BYTES_MAX,
    OUTPUT_BYTES_MAX,
    OUTPUT_PAUSE_BYTES,
    OUTPUT_PUBSUB_BYTES_MAX,
    RequestLimits,
)
from streamd.base.log import log
from streamd.catalog import Context
from streamd.engine.engine import Engine
from streamd.resp.decoder import Decoder
from streamd.resp.encoder import encode
from streamd.resp.fast_decoder import FastDecoder
from streamd.resp.template import Alike

PROTECTED: Final = (
    "DENIED streamd is running in protected mode because protected mode is enabled and no password is set for the "
    "default user. In this mode connections are only accepted from the loopback interface. If you want to connect "
    "from external computers, either start the server with --requirepass PASSWORD, or with --protected-mode no if "
    "the network is trusted."
)


class Host(Protocol):
    """What a connection asks of the server that it belongs to."""

    engine: Engine
    connections: "set[Connection]"

    def end_turn(self) -> None:
        """End the turn: let replies leave."""

    def resume_soon(self, connection: "Connection") -> None:
        """Call the connection's `resume` in a later turn."""


class Connection:
    """The thin I/O side of a client, an asyncio.Protocol; everything it needs of the world is a transport.

    (It has no base: compiled, a class with an interpreted one looks up whatever it has by name.)

    Reading stops while the client does not read its replies, and while it is blocked and keeps sending.
    """

    __slots__ = (
        "_closing",
        "_decoder",
        "_ended",
        "_limits",
        "_paused_reading",
        "_server",
        "_transport",
        "client",
    )

    def __init__(self, server: Host) -> None:
        self._server = server
        self._paused_reading = False
        self._closing = False
        self._ended = False
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
            self._limit_waiting_input()
            return
        if client.authenticated and isinstance(decoder, FastDecoder):
            # The hot path: everything that is not an error or a new client.
            engine = self._server.engine
            gathering = engine.gathering
            is_shared = gathering.is_shared
            requests = decoder.receive(data, is_shared and not gathering.let_pass)
            rows = gathering.take_alike(client, requests) if isinstance(requests, Alike) else requests
            if rows and not (is_shared and decoder.error is None and gathering.take(client, rows)):
                engine.run(client, rows)
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
        """The client sends no more: what it has sent is answered before the connection is closed.

        It may still read (`printf 'PING\\r\\n' | nc -N`). One that waits in a blocking command is gone, as in Redis.
        """
        if self._closing or self.client is None:
            return False
        self._ended = True
        self._close_at_the_end()
        if self._transport.get_extra_info("sslcontext") is not None:
            # TLS ends both ways at once: what is ready leaves now.
            self._server.engine.end_turn()
            return False
        self._server.end_turn()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        if self.client is not None:
            self._server.engine.disconnect(self.client)
            self._server.connections.discard(self)

    def pause_writing(self) -> None:
        """The client does not read: take no more requests from it."""
        self._pause_reading()

    def resume_writing(self) -> None:
        """The client has read: go on."""
        if self._closing or self.client is None:
            return
        self.resume()
        self._server.end_turn()

    # -- the way in -----------------------------------------------------------------------------------------------

    def _take(self) -> None:
        """Execute what has been received whole."""
        client = self.client
        assert client is not None
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
        if client.authenticated and decoder.error is None:
            self._decoder = FastDecoder(self._limits, decoder.rest())
        return client.authenticated or decoder.error is not None

    def resume(self) -> None:
        """Go on with what the client sent while it was blocked or did not read."""
        client = self.client
        assert client is not None
        if self._closing or client.close_soon or client.waiter is not None or self._is_choked():
            return
        if client.backlog:
            self._server.engine.make_slices(client)
        decoder = self._decoder
        if _goes_on(client) and (decoder.buffered_bytes or decoder.error is not None):
            self._take()
        if _goes_on(client) and self._paused_reading and not self._is_choked():
            self._paused_reading = False
            self._transport.resume_reading()
        self._close_at_the_end()

    def _close_at_the_end(self) -> None:
        """Close behind the last reply, if the client has ended its side and nothing of it waits."""
        client = self.client
        assert client is not None
        if self._ended and (client.waiter is not None or not client.backlog):
            client.close_soon = True
            self._server.engine.state.wants_flush(client)

    def _limit_waiting_input(self) -> None:
        if self._decoder.buffered_bytes > INPUT_WAITING_BYTES_MAX:
            self._pause_reading()

    def _pause_reading(self) -> None:
        if not self._paused_reading and not self._closing:
            self._paused_reading = True
            self._transport.pause_reading()

    def _is_choked(self) -> bool:
        return self._transport.get_write_buffer_size() > OUTPUT_PAUSE_BYTES

    # -- the way out ----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what the turn has left in the client's output."""
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
        """Hand much to the transport without joining it.

        The kernel takes the pieces from where they are: to copy a megabyte of them into new memory first costs as much
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
            self._closing = True
            transport.abort()

    def close(self) -> None:
        """Close once what is written has left."""
        if not self._closing:
            self._closing = True
            self._transport.close()

    def kill(self) -> None:
        """Close without waiting for a client that does not read."""
        self.close()
        if self._transport.get_write_buffer_size():
            self._transport.abort()

    def close_if_left(self, now_ms: int) -> None:
        """Close if nobody is there any more: no request for longer than `timeout`, or blocked and gone.

        While a blocked client is not read from, because it sent too much, its end is not seen by reading.
        """
        client = self.client
        if client is None or self._closing:
            return
        if client.waiter is not None:
            if self._paused_reading and _has_hung_up(self._transport):
                self.abort()
            return
        timeout_s = self._server.engine.state.config.integer("timeout")
        if timeout_s and now_ms - client.last_ms > timeout_s * 1000 and not client.subscription_count():
            log.info("client-idle", "closing idle client %s", client.address)
            self.kill()

    def abort(self) -> None:
        """Close at once, whatever waits to be sent."""
        self._closing = True
        self._transport.abort()


def _address(name: object) -> str:
    if isinstance(name, tuple) and len(name) >= 2:
        return f"[{name[0]}]:{name[1]}" if ":" in str(name[0]) else f"{name[0]}:{name[1]}"
    return f"{name}:0" if name else ""


def _has_hung_up(transport: asyncio.Transport) -> bool:
    """Return whether the other side has ended the connection, though what it sent before is not read yet."""
    sock = transport.get_extra_info("socket")
    if sock is None or not hasattr(select, "POLLRDHUP"):
        return False
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


def _waits(client: Context) -> bool:
    """Return whether a client waits now: what a type checker knew of it before a call goes for compiled code."""
    return client.waiter is not None


def _goes_on(client: Context) -> bool:
    """Return whether a client neither waits nor has requests that wait for their turn."""
    return client.waiter is None and not client.backlog


def _is_loopback(peer: object) -> bool:
    if isinstance(peer, tuple) and peer:
        host = str(peer[0])
        return host.startswith(("127.", "::ffff:127.")) or host == "::1"
    return True  # a Unix socket, or a test's transport

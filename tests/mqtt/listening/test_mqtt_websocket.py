"""The WebSocket of MQTT: which clients become one, and how frames become bytes and bytes frames."""

import asyncio

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.uri import parse_uri

from tests.mqtt.listening.front import Certificates, Front, Run, Silent, front, opened, raw, soon, trusting, until

PACKETS = b"".join(bytes((0x30, 4, 0, 1, 97, one)) for one in range(40))
REQUEST = (
    b"GET /mqtt HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
OFFER = b"Sec-WebSocket-Protocol: mqtt\r\n"
# Statement: what is sent behind the handshake: frames of a client (opcode, data, whether it is the last fragment).
TEXT, BINARY, CONT, PING = Opcode.TEXT, Opcode.BINARY, Opcode.CONT, Opcode.PING
NOT_BINARY = {
    "5:6.0.0-1 text": ([(TEXT, b"\x30\x04", True)], b""),
    "5:6.0.0-1 empty text": ([(TEXT, b"", True)], b""),
    "5:6.0.0-1 text behind binary": ([(BINARY, b"ab", True), (TEXT, b"cd", True), (BINARY, b"ef", True)], b"ab"),
    "5:6.0.0-1 first fragment of a text": ([(TEXT, b"a", False)], b""),
}
NOT_ALIGNED = {
    "5:6.0.0-2 many packets in a frame": [(BINARY, PACKETS, True)],
    "5:6.0.0-2 a byte in a frame": [(BINARY, PACKETS[one : one + 1], True) for one in range(len(PACKETS))],
    "5:6.0.0-2 fragments": [(BINARY, PACKETS[:3], False), (CONT, PACKETS[3:100], False), (CONT, PACKETS[100:], True)],
    "5:6.0.0-2 empty frames between": [(BINARY, b"", True), (BINARY, PACKETS[:5], True), (BINARY, b"", True),
                                       (BINARY, PACKETS[5:], False), (CONT, b"", True)],
    "5:6.0.0-2 a ping between fragments": [(BINARY, PACKETS[:7], False), (PING, b"x", True), (CONT, PACKETS[7:], True)],
}  # fmt: skip


def frames(sent: list[tuple[Opcode, bytes, bool]]) -> bytes:
    return b"".join(Frame(opcode, data, last).serialize(mask=True) for opcode, data, last in sent)


async def upgraded(one: Front) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection whose handshake is over."""
    reader, writer = await asyncio.open_connection("127.0.0.1", one.port("ws"))
    writer.write(REQUEST + OFFER + b"\r\n")
    assert b"\r\nSec-WebSocket-Protocol: mqtt\r\n" in await soon(reader.readuntil(b"\r\n\r\n"))
    return reader, writer


async def echoed(client: ClientConnection, length: int) -> bytes:
    got = b""
    while len(got) < length:
        part = await soon(client.recv())
        assert isinstance(part, bytes)
        got += part
    return got


@pytest.mark.parametrize("statement", NOT_BINARY)
def test_a_frame_that_is_not_binary_closes_the_connection(run: Run, statement: str):
    sent, taken = NOT_BINARY[statement]

    async def main() -> None:
        async with front(ws_port=0) as one:
            reader, writer = await upgraded(one)
            writer.write(frames(sent))
            got = await soon(reader.read())
            assert got.startswith(Frame(BINARY, taken).serialize(mask=False) if taken else b"\x88")
            assert b"\x03\xeb" in got  # 1003
            writer.close()
            await soon(one.made[0].ended)
            assert b"".join(one.made[0].received) == taken

    run(main)


@pytest.mark.parametrize("statement", NOT_ALIGNED)
def test_frames_and_packets_need_not_be_aligned(run: Run, statement: str):
    async def main() -> None:
        async with front(ws_port=0) as one:
            reader, writer = await upgraded(one)
            writer.write(frames(NOT_ALIGNED[statement]))
            await until(lambda: one.made and b"".join(one.made[0].received) == PACKETS)
            del reader
            writer.close()
            await soon(one.made[0].ended)

    run(main)


@pytest.mark.parametrize("statement", NOT_ALIGNED)
def test_it_does_not_matter_how_the_network_cuts_the_stream(run: Run, statement: str):
    """5:6.0.0-2, with the request, each frame's head and its data cut at every byte."""

    async def main() -> None:
        async with front(ws_port=0) as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port("ws"))
            for byte in REQUEST + OFFER + b"\r\n" + frames(NOT_ALIGNED[statement]):
                writer.write(bytes((byte,)))
                await writer.drain()
                await asyncio.sleep(0)
            await until(lambda: one.made and b"".join(one.made[0].received) == PACKETS)
            writer.close()
            del reader

    run(main)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["mqtt"], "mqtt"),
        (["mqttv3.1", "mqtt"], "mqttv3.1"),
        (["mqtt", "mqttv3.1"], "mqtt"),
        (["foo", "mqtt"], "mqtt"),
        (["mqttv3.1"], "mqttv3.1"),
        (None, None),
    ],
    ids=str,
)
def test_the_server_chooses_the_first_subprotocol_of_mqtt_and_takes_none(
    run: Run, offered: list[str] | None, chosen: str | None
):
    """5:6.0.0-4, and more than 5:6.0.0-3 demands."""

    async def main() -> None:
        async with front(ws_port=0) as one, one.websocket(subprotocols=offered) as client:
            assert client.subprotocol == chosen
            await client.send(PACKETS)
            assert await echoed(client, len(PACKETS)) == PACKETS
            assert (one.made[0].kind, one.made[0].names_wanted) == ("ws", False)

    run(main)


@pytest.mark.parametrize("offered", [["foo"], ["MQTT"], ["mqttv3.1.1", "http-only"]], ids=str)
def test_with_other_subprotocols_alone_the_handshake_is_refused(run: Run, offered: list[str]):

    async def main() -> None:
        async with front(ws_port=0) as one:
            with pytest.raises(InvalidStatus) as refused:
                await one.websocket(subprotocols=offered)
            assert refused.value.response.status_code == 400
            await until(lambda: one.listening.connections == 0)
            assert one.made == []
            assert one.listening.counts.refused == 1

    run(main)


@pytest.mark.parametrize("path", ["/", "/mqtt", "/a/b?c=d", "*"])
def test_the_path_means_nothing(run: Run, path: str):
    async def main() -> None:
        async with front(ws_port=0) as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port("ws"))
            writer.write((REQUEST + OFFER).replace(b"/mqtt ", path.encode() + b" ") + b"\r\n")
            assert (await soon(reader.readline())).startswith(b"HTTP/1.1 101 ")
            writer.close()

    run(main)


@pytest.mark.parametrize(
    ("listed", "origin", "status"),
    [
        ((), None, 101),
        ((), "https://evil.example", 403),
        ((), "http://127.0.0.1:5173", 101),
        (("https://app.example",), "https://app.example", 101),
        (("https://app.example",), "https://app.example.evil", 403),
        (("https://app.example",), None, 101),
    ],
)
def test_a_page_of_another_origin_is_refused(run: Run, listed: tuple[str, ...], origin: str | None, status: int):
    header = b"" if origin is None else f"Origin: {origin}\r\n".encode()

    async def main() -> None:
        async with front(ws_port=0, ws_origins=listed) as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port("ws"))
            writer.write(REQUEST + OFFER + header + b"\r\n")
            assert (await soon(reader.readline())).startswith(f"HTTP/1.1 {status} ".encode())
            if status == 403:
                assert (await soon(reader.read())).endswith(
                    f"Origin '{origin}' may not connect: see --ws-origin.\n".encode()
                )
                assert one.listening.counts.of_other_origin == 1
            writer.close()

    run(main)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 426 "),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 405 "),
        (b"GET / HTTP/1.0\r\n\r\n", b"HTTP/1.1 505 "),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"HTTP/1.1 431 "),
        (b"GET /" + b"a" * 10_000, b"HTTP/1.1 414 "),
        ((REQUEST + OFFER).replace(b"Version: 13", b"Version: 8") + b"\r\n", b"HTTP/1.1 400 "),
        (REQUEST + b"Sec-WebSocket-Protocol: ,;\xff\r\n\r\n", b"HTTP/1.1 400 "),
        ((REQUEST + OFFER).replace(b"ZSBub25jZQ==", b"\xe9") + b"\r\n", b"HTTP/1.1 400 "),
        (b"\r\n\r\n", b""),
        (b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00\r\n", b""),
        (b"\x16\x03\x01\x00\xf8\x01\x00\x00\n\x03\x03", b""),
        (b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcde", b""),
        (b"GET / HTTP/1.1\r\n" + (b"A: " + b"b" * 8000 + b"\r\n") * 20, b""),
        (REQUEST + OFFER + b"\r\n" + frames([(PING, b"", True)]), b""),
        (REQUEST + OFFER + b"\r\n" + frames([(Opcode.CLOSE, b"", True)]), b""),
        (REQUEST + OFFER + b"\r\n\x82\x00", b""),  # not masked
    ],
)
def test_nonsense_is_answered_or_closed_and_leaves_nothing_behind(run: Run, sent: bytes, status: bytes):
    async def main() -> None:
        async with front(ws_port=0) as one:
            got = await raw(one.port("ws"), sent)
            assert got.startswith(status)
            assert status or not got
            await until(lambda: one.listening.connections == 0)
            assert one.made == []
            assert one.listening.counts.refused == 1

    run(main)


def test_a_request_that_never_ends_is_given_up(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("streamd.clients.mqtt.listening.websocket_connection.HANDSHAKE_S", 0.01)

    async def main() -> None:
        async with front(ws_port=0) as one:
            assert await raw(one.port("ws"), REQUEST) == b""
            assert one.listening.counts.failed == 1

    run(main)


def test_a_client_that_sends_frames_before_the_answer_is_served(run: Run):
    async def main() -> None:
        async with front(ws_port=0) as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port("ws"))
            writer.write(REQUEST + OFFER + b"\r\n" + frames([(BINARY, b"abc", True)]))
            assert (await soon(reader.readuntil(b"\r\n\r\n"))).startswith(b"HTTP/1.1 101 ")
            assert await soon(reader.readexactly(5)) == b"\x82\x03abc"
            writer.close()

    run(main)


def test_no_compression_is_agreed_upon(run: Run):
    async def main() -> None:
        async with front(ws_port=0) as one, one.websocket(compression="deflate") as client:
            assert client.protocol.extensions == []

    run(main)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        ([(BINARY, bytes(1000), True)], None),
        ([(BINARY, bytes(1001), True)], 1009),
        ([(BINARY, bytes(600), False), (CONT, bytes(400), True), (BINARY, bytes(1000), True)], None),
        ([(BINARY, bytes(600), False), (CONT, bytes(401), True)], 1009),
        ([(CONT, b"a", True)], 1002),
        ([(BINARY, b"a", False), (BINARY, b"a", True)], 1002),
    ],
)
def test_a_message_that_is_too_large_or_broken_closes_the_connection(
    run: Run, sent: list[tuple[Opcode, bytes, bool]], code: int | None
):
    async def main() -> None:
        async with front(Silent, ws_port=0, ws_message_bytes_max=1000) as one:
            reader, writer = await upgraded(one)
            writer.write(frames(sent))
            if code is None:
                await until(lambda: sum(map(len, one.made[0].received)) == sum(len(data) for _, data, _ in sent))
            else:
                got = await soon(reader.read())
                assert got[0] == 0x88
                assert int.from_bytes(got[2:4], "big") == code
            writer.close()
            await soon(one.made[0].ended)

    run(main)


def test_pings_are_answered_and_are_nothing_to_mqtt(run: Run):
    async def main() -> None:
        async with front(ws_port=0) as one, one.websocket() as client:
            await soon(await client.ping(b"hello"))
            await client.pong(b"unasked")
            await client.send(b"a")
            assert await echoed(client, 1) == b"a"
            assert one.made[0].received == [b"a"]

    run(main)


def test_what_is_written_in_one_turn_is_one_frame(run: Run):
    async def main() -> None:
        async with front(Silent, ws_port=0) as one, one.websocket() as client:
            echo = await opened(client, one.made)
            echo.transport.write(b"a")
            changing = bytearray(b"c")
            echo.transport.writelines([b"b", changing, memoryview(b"d")])
            changing[:] = b"x"
            echo.transport.write(b"")
            assert echo.transport.get_write_buffer_size() == 4
            assert await soon(client.recv()) == b"abcd"
            echo.transport.write(b"e")
            assert await soon(client.recv()) == b"e"

    run(main)


def test_a_large_packet_is_several_frames(run: Run):
    packet = bytes(range(256)) * 8192

    async def main() -> None:
        async with front(Silent, ws_port=0) as one, one.websocket(max_size=1024 * 1024) as client:
            echo = await opened(client, one.made)
            echo.transport.write(packet)
            assert await echoed(client, len(packet)) == packet

    run(main)


def test_what_was_written_before_a_close_arrives_and_nothing_else_follows(run: Run):
    async def main() -> None:
        async with front(Silent, ws_port=0) as one, one.websocket() as client:
            echo = await opened(client, one.made)
            echo.transport.write(b"last")
            echo.transport.close()
            echo.transport.write(b"later")
            assert echo.transport.is_closing()
            assert not echo.transport.is_reading()
            assert await soon(client.recv()) == b"last"
            with pytest.raises(ConnectionClosed):
                await soon(client.recv())
            assert client.close_code == 1000
            assert await soon(echo.ended) is None
            assert echo.told == ["made", "lost"]
            echo.transport.close()
            echo.transport.write(b"after the end")

    run(main)


def test_a_client_that_does_not_say_good_bye_is_not_waited_for(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("streamd.clients.mqtt.listening.websocket_connection.CLOSE_S", 0.01)

    async def main() -> None:
        async with front(Silent, ws_port=0) as one:
            reader, writer = await upgraded(one)
            one.made[0].transport.close()
            assert await soon(one.made[0].ended) is None
            assert await soon(reader.read()) == b"\x88\x02\x03\xe8"
            writer.close()

    run(main)


def test_a_client_that_says_good_bye_is_answered(run: Run):
    async def main() -> None:
        async with front(ws_port=0) as one:
            reader, writer = await upgraded(one)
            writer.write(frames([(BINARY, b"abc", True), (Opcode.CLOSE, b"\x03\xe9", True)]))
            assert (await soon(reader.read())).endswith(b"\x88\x02\x03\xe9")
            writer.close()
            assert await soon(one.made[0].ended) is None
            assert one.made[0].received == [b"abc"]

    run(main)


@pytest.mark.parametrize("how", ["end", "reset"])
def test_a_client_that_is_gone_without_a_word_is_an_end(run: Run, how: str):
    async def main() -> None:
        async with front(ws_port=0) as one:
            _, writer = await upgraded(one)
            await until(lambda: one.made and one.made[0].told)
            if how == "end":
                writer.close()
            else:
                writer.transport.abort()
            await soon(one.made[0].ended)
            assert one.made[0].told[-1] == "lost"

    run(main)


def test_the_transport_tells_what_the_network_knows(run: Run):
    async def main() -> None:
        async with front(ws_port=0) as one, one.websocket() as client:
            echo = await opened(client, one.made)
            assert echo.transport.get_extra_info("peername") == client.local_address
            assert echo.transport.get_extra_info("ssl_object") is None
            assert echo.transport.get_extra_info("nothing", 7) == 7
            assert echo.transport.get_protocol() is echo
            assert not echo.transport.can_write_eof()
            echo.transport.set_write_buffer_limits(high=100, low=10)
            assert echo.transport.get_write_buffer_limits() == (10, 100)

    run(main)


def test_a_websocket_over_tls(run: Run, certificates: Certificates):
    options = {**certificates.options(), "tls_ca": certificates.ca.cert, "tls_user_from_certificate": True}

    async def main() -> None:
        async with front(port=None, tls_ws_port=0, **options) as one:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", one.port("wss"), ssl=certificates.client.context(certificates.ca)
            )
            protocol = ClientProtocol(parse_uri("wss://127.0.0.1"), subprotocols=["mqtt"])  # type: ignore[list-item]
            protocol.send_request(protocol.connect())
            writer.writelines(protocol.data_to_send())
            protocol.receive_data(await soon(reader.readuntil(b"\r\n\r\n")))
            protocol.send_binary(PACKETS)
            writer.writelines(protocol.data_to_send())
            assert await soon(reader.readexactly(4 + len(PACKETS))) == Frame(BINARY, PACKETS).serialize(mask=False)
            echo = one.made[0]
            assert (echo.kind, echo.names_wanted) == ("wss", True)
            assert dict(one[0] for one in echo.transport.get_extra_info("peercert")["subject"])["commonName"] == "d7"
            assert echo.transport.get_extra_info("ssl_object") is not None
            writer.write(frames([(TEXT, b"", True)]))
            assert (await soon(reader.read()))[2:4] == b"\x03\xeb"
            await soon(echo.ended)
            writer.close()

    run(main)


def test_a_page_without_a_certificate_gets_none_of_it(run: Run, certificates: Certificates):
    options = {**certificates.options(), "tls_ca": certificates.ca.cert, "tls_user_from_certificate": True}

    async def main() -> None:
        async with front(port=None, tls_ws_port=0, **options) as one:
            with pytest.raises((OSError, EOFError)):
                await raw_or_fault(one.port("wss"), certificates)
            await until(lambda: one.listening.counts.failed == 1)
            assert one.made == []

    async def raw_or_fault(port: int, certificates: Certificates) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(certificates.ca))
        writer.write(REQUEST + OFFER + b"\r\n")
        await soon(reader.readexactly(1))

    run(main)

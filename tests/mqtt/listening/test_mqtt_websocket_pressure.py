"""Back pressure through a WebSocket in both directions, and turns that a client cannot make long."""

import asyncio

import pytest
from websockets.frames import Frame, Opcode

from streamd.clients.mqtt.listening.websocket_connection import READ_BYTES_MAX
from tests.mqtt.listening.front import Echo, Front, Run, Silent, front, opened, soon, until
from tests.mqtt.listening.test_mqtt_websocket import frames, upgraded

MEGABYTE = 1024 * 1024


class Holding(Silent):
    """Wants nothing more behind the first bytes."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.transport.pause_reading()


class Failing(Silent):
    """Has a fault."""

    def data_received(self, data: bytes) -> None:
        raise RuntimeError("a fault of ours")


def test_the_writer_is_told_when_the_client_does_not_read_and_when_it_does_again(run: Run):
    async def main() -> None:
        async with front(Silent, ws_port=0) as one, one.websocket(max_queue=1) as client:
            echo = await opened(client, one.made)
            sent = 0
            while "pause" not in echo.told:  # more than the system's buffers and the client's take
                echo.transport.write(bytes(MEGABYTE))
                sent += MEGABYTE
            assert echo.transport.get_write_buffer_size() > 0
            got = 0
            while got < sent:
                got += len(await soon(client.recv()))
            await until(lambda: echo.told == ["made", "pause", "resume"])
            assert echo.transport.get_write_buffer_size() == 0

    run(main)


def test_the_writer_is_told_within_the_turn_in_which_it_writes_too_much(run: Run):
    async def main() -> None:
        async with front(Silent, ws_port=0) as one:
            reader, writer = await upgraded(one)
            echo = one.made[0]
            written = 0
            while "pause" not in echo.told and written < 64 * MEGABYTE:
                echo.transport.write(bytes(1000))
                written += 1000
            assert "pause" in echo.told
            writer.close()
            del reader

    run(main)


def test_a_pause_of_reading_holds_the_client_and_what_was_read_already(run: Run):
    """Data that came with the first bytes stays here, and the network is not read."""
    many = frames([(Opcode.BINARY, bytes((number % 256,)) * 1000, True) for number in range(2000)])

    async def main() -> None:
        async with front(Holding, ws_port=0) as one:
            _, writer = await upgraded(one)
            echo = one.made[0]
            writer.transport.set_write_buffer_limits(high=0)
            writer.write(many)
            await until(lambda: echo.received)
            for _ in range(200):
                await asyncio.sleep(0)
            assert len(b"".join(echo.received)) <= READ_BYTES_MAX
            assert not echo.transport.is_reading()
            writer.write(frames([(Opcode.BINARY, b"end", True)]))

            turns = 0
            while not (echo.received and echo.received[-1].endswith(b"end")):
                if not echo.transport.is_reading():
                    turns += 1
                    echo.transport.resume_reading()
                await asyncio.sleep(0)
            assert turns > 2000 * 1000 // READ_BYTES_MAX / 2
            assert b"".join(echo.received) == b"".join(bytes((n % 256,)) * 1000 for n in range(2000)) + b"end"
            writer.close()

    run(main)


def test_a_client_that_ends_what_it_sends_while_it_is_held_gets_all_of_it_through(run: Run):
    async def main() -> None:
        async with front(Holding, ws_port=0) as one:
            _, writer = await upgraded(one)
            echo = one.made[0]
            writer.write(frames([(Opcode.BINARY, bytes(10), True)] * 20_000))
            writer.write(frames([(Opcode.CLOSE, b"\x03\xe8", True)]))
            while "lost" not in echo.told:
                echo.transport.resume_reading()
                await asyncio.sleep(0)
            assert len(b"".join(echo.received)) == 200_000
            assert echo.ended.result() is None
            writer.close()

    run(main)


def test_a_close_while_reading_is_paused_ends_the_connection(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("streamd.clients.mqtt.listening.websocket_connection.CLOSE_S", 60)

    async def main() -> None:
        async with front(Holding, ws_port=0) as one, one.websocket() as client:
            echo = await opened(client, one.made)
            for _ in range(100):
                await client.send(bytes(10_000))
            await until(lambda: echo.received)
            received = len(echo.received)
            echo.transport.close()
            await soon(echo.ended)
            await soon(client.wait_closed())
            assert client.close_code == 1000
            assert len(echo.received) == received

    run(main)


def test_small_frames_without_number_leave_turns_to_others(run: Run):
    async def main() -> None:
        async with front(ws_port=0) as one, one.websocket() as other:
            echo = await opened(other, one.made)
            reader, writer = await upgraded(one)
            await until(lambda: len(one.made) == 2)
            writer.write(frames([(Opcode.BINARY, b"", True)] * 100_000 + [(Opcode.BINARY, b"end", True)]))
            await other.send(b"me too")
            await until(lambda: echo.received)
            assert one.made[1].received == []
            assert await soon(reader.readexactly(5)) == b"\x82\x03end"
            writer.close()

    run(main)


def test_pings_of_a_client_that_reads_nothing_are_not_kept(run: Run):
    async def main() -> None:
        async with front(Silent, ws_port=0) as one:
            reader, writer = await upgraded(one)
            echo = one.made[0]
            while "pause" not in echo.told:
                echo.transport.write(bytes(MEGABYTE))
            await until(lambda: echo.transport.get_write_buffer_size() > 0)
            waiting = echo.transport.get_write_buffer_size()
            pings = [(Opcode.PING, f"ping {number}".encode(), True) for number in range(5000)]
            writer.write(frames([*pings, (Opcode.BINARY, b"end", True)]))
            await until(lambda: echo.received == [b"end"])
            assert echo.transport.get_write_buffer_size() <= waiting

            got = b""
            while not got.endswith(Frame(Opcode.PONG, b"ping 4999").serialize(mask=False)):
                got = got[-100:] + await soon(reader.read(MEGABYTE))
            writer.close()

    run(main)


@pytest.mark.parametrize("many", [1, 20_000])
def test_a_fault_of_ours_is_reported_and_ends_the_connection(many: int):
    reports: list[dict[str, object]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
        async with front(Failing, ws_port=0) as one:
            _, writer = await upgraded(one)
            writer.write(frames([(Opcode.BINARY, bytes(10), True)] * many))
            await soon(one.made[0].ended)
            writer.close()

    asyncio.run(main())
    assert str(reports[0]["exception"]) == "a fault of ours"


def test_what_one_connection_does_is_no_other_ones(run: Run):
    async def exchange(one: Front, number: int) -> None:
        async with one.websocket() as client:
            data = bytes((number,)) * (number * 1000 + 1)
            await client.send(data)
            got = b""
            while len(got) < len(data):
                got += await soon(client.recv())  # type: ignore[operator]
            assert got == data

    async def main() -> None:
        async with front(Echo, ws_port=0) as one:
            await asyncio.gather(*(exchange(one, number) for number in range(30)))
            await until(lambda: one.listening.connections == 0)
            assert one.listening.counts.accepted == 30

    run(main)

"""The listeners: where they listen, whom they let in, and the line that says why they cannot start."""

import asyncio
import errno
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from websockets.frames import Opcode

from streamd.clients.mqtt.listening import Listeners, ListenFault, start
from streamd.clients.mqtt.listening import places as places_module
from tests.mqtt.listening.front import Certificates, Echo, Run, front, raw, soon, until
from tests.mqtt.listening.test_mqtt_websocket import OFFER, REQUEST, frames


def fault_of(**options: object) -> ListenFault:
    """Return why listeners with these options do not start."""

    async def main() -> None:
        given = Listeners(**{"port": None, **options})  # type: ignore[arg-type]
        listening = await start(asyncio.get_running_loop(), given, Echo)
        listening.close()

    with pytest.raises(ListenFault) as raised:
        asyncio.run(main())
    assert "\n" not in str(raised.value)
    return raised.value


async def answered(sock: socket.socket) -> bool:
    """Return whether what is sent comes back."""
    reader, writer = await asyncio.open_connection(sock=sock)
    writer.write(b"hello")
    try:
        return await soon(reader.read(5)) == b"hello"
    except ConnectionResetError:
        return False
    finally:
        writer.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port))


def test_each_listener_has_its_kind_and_says_where_it_is(run: Run, certificates: Certificates, tmp_path: Path):
    path = tmp_path / "mqtt.sock"

    async def main() -> None:
        everything = {"port": 0, "tls_port": 0, "ws_port": 0, "tls_ws_port": 0, "unix": path}
        async with front(**everything, **certificates.options()) as one:
            assert [kind for kind, _ in one.listening.places] == ["mqtt", "mqtts", "ws", "wss", "unix"]
            assert one.listening.places[0] == ("mqtt", f"127.0.0.1:{one.port('mqtt')}")
            assert one.listening.places[-1] == ("unix", str(path))
            assert len({one.port(kind) for kind in ("mqtt", "mqtts", "ws", "wss")}) == 4

    run(main)


def test_a_tcp_connection_is_the_protocol_of_the_factory(run: Run):
    async def main() -> None:
        async with front(port=0) as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port("mqtt"))
            writer.write(b"hello")
            assert await soon(reader.read(5)) == b"hello"
            echo = one.made[0]
            assert (echo.kind, echo.names_wanted) == ("mqtt", False)
            sock = echo.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert echo.transport.get_extra_info("peername") == writer.get_extra_info("sockname")
            writer.write_eof()
            assert await soon(echo.ended) is None
            assert echo.told == ["made", "eof", "lost"]
            assert one.listening.connections == 0
            writer.close()

    run(main)


def test_a_writer_on_tcp_is_told_when_the_client_does_not_read(run: Run):
    async def main() -> None:
        async with front(port=0) as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port("mqtt"), limit=2**16)
            writer.write(b"a")
            await until(lambda: one.made and one.made[0].received)
            sent = 1
            while "pause" not in one.made[0].told:
                one.made[0].transport.write(bytes(2**20))
                sent += 2**20
            await soon(reader.readexactly(sent))
            await until(lambda: one.made[0].told[-1] == "resume")
            writer.close()

    run(main)


@pytest.mark.parametrize("host", ["::1", "::", "localhost", "0.0.0.0"])
def test_other_addresses_than_the_usual_one(run: Run, host: str):
    if ":" in host and not socket.has_ipv6:
        pytest.skip("no IPv6 here")

    async def main() -> None:
        try:
            with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
                pass
        except OSError:
            pytest.skip(f"this machine cannot listen at {host}")
        async with front(port=0, bind=host) as one:
            address = one.listening.places[0][1]
            assert address.startswith("[::") == (":" in host)
            for target in {"::": ("::1", "127.0.0.1"), "::1": ("::1",)}.get(host, ("localhost",)):
                assert await answered(socket.create_connection((target, one.port("mqtt"))))

    run(main)


def test_after_close_nobody_is_accepted_and_those_who_are_in_stay(run: Run):
    async def main() -> None:
        async with front(port=0) as one:
            port = one.port("mqtt")
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"a")
            assert await soon(reader.read(1)) == b"a"
            one.listening.close()
            with pytest.raises(ConnectionRefusedError):
                connected(port)
            writer.write(b"b")
            assert await soon(reader.read(1)) == b"b"
            writer.close()
            assert one.listening.places == []
            one.listening.close()

    run(main)


@pytest.mark.parametrize("kind", ["mqtts", "ws", "wss"])
def test_after_close_a_handshake_that_goes_on_is_ended(run: Run, certificates: Certificates, kind: str):
    async def main() -> None:
        ports = {"tls_port": 0, "ws_port": 0, "tls_ws_port": 0}
        async with front(**ports, **certificates.options()) as one:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port(kind))
            writer.write(b"GET " if kind == "ws" else b"\x16\x03\x01")
            await until(lambda: one.listening.connections == 1)
            for _ in range(20):
                await asyncio.sleep(0)
            one.listening.close()
            try:
                assert await soon(reader.read()) == b""
            except ConnectionResetError:
                pass
            await until(lambda: one.listening.connections == 0)
            writer.close()

    run(main)


@pytest.mark.parametrize("number", [0, 1])
def test_a_connection_accepted_in_the_turn_of_the_close_is_ended(run: Run, certificates: Certificates, number: int):
    async def main() -> None:
        async with front(port=0, tls_port=0, **certificates.options()) as one:
            here, there = socket.socketpair()
            one.listening._admit(here, one.listening._places[number])
            assert one.listening.connections == 1
            one.listening.close()
            await until(lambda: one.listening.connections == 0)
            assert (there.recv(1), one.made) == (b"", [])
            there.close()

    run(main)


# Admission.


@pytest.mark.parametrize("kind", ["mqtt", "mqtts", "ws"])
def test_more_connections_than_allowed_are_closed_at_once_and_counted(run: Run, certificates: Certificates, kind: str):
    """A client that has not finished its handshake is a connection, too."""

    async def main() -> None:
        ports = {"port": 0, "tls_port": 0, "ws_port": 0}
        async with front(**ports, connections_max=3, **certificates.options()) as one:
            held = [connected(one.port(kind)) for _ in range(3)]
            await until(lambda: one.listening.connections == 3)
            for _ in range(2):
                assert await raw(one.port("mqtt"), b"") == b""
            assert (one.listening.counts.surplus, one.listening.counts.accepted) == (2, 3)
            held.pop().close()
            await until(lambda: one.listening.connections == 2)
            assert await answered(connected(one.port("mqtt")))
            for sock in held:
                sock.close()
            await until(lambda: one.listening.connections == 0)

    run(main)


def test_clients_that_reset_at_once_leave_no_place_taken(run: Run):
    async def main() -> None:
        async with front(port=0, connections_max=10) as one:
            for number in range(30):
                sock = connected(one.port("mqtt"))
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                sock.close()
                await until(lambda: one.listening.counts.accepted == number + 1)  # noqa: B023
                await until(lambda: one.listening.connections == 0)
            assert await answered(connected(one.port("mqtt")))

    run(main)


def test_without_free_files_it_accepts_later(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("streamd.clients.mqtt.listening.listening.DELAY_S", 0.01)

    class Exhausted:
        """A listening socket in a process without free files; later with some."""

        def __init__(self, real: socket.socket) -> None:
            self.real, self.asked = real, 0

        def accept(self) -> tuple[socket.socket, object]:
            self.asked += 1
            if self.asked < 3:
                raise OSError(errno.EMFILE, "Too many open files")
            return self.real.accept()

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

    made = places_module.tcp
    monkeypatch.setattr(places_module, "tcp", lambda *options: Exhausted(made(*options)))

    async def main() -> None:
        async with front(port=0) as one:
            assert await answered(connected(one.port("mqtt")))
            assert one.listening.counts.delayed == 2
        async with front(port=0) as one:
            sock = connected(one.port("mqtt"))
            await until(lambda: one.listening.counts.delayed)
            one.listening.close()
            later = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0.02, later.set_result, None)
            await later
            assert one.listening.counts.accepted == 0
            sock.close()

    run(main)


# The Unix socket.


def test_a_unix_socket_is_for_its_owner_and_is_removed(run: Run, tmp_path: Path):
    path = tmp_path / "mqtt.sock"

    async def main() -> None:
        async with front(unix=path) as one:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"hello")
            assert await soon(reader.read(5)) == b"hello"
            assert (one.made[0].kind, one.made[0].names_wanted) == ("unix", False)
            writer.close()
        assert not path.exists()
        async with front(unix=path, unix_mode=0o660):
            assert stat.S_IMODE(path.stat().st_mode) == 0o660

    run(main)


def test_the_socket_of_a_dead_process_is_replaced_and_that_of_a_live_one_is_not(run: Run, tmp_path: Path):
    path = tmp_path / "mqtt.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))

    async def main() -> None:
        async with front(unix=path):
            with pytest.raises(ListenFault, match=r"mqtt\.sock: in use by another process; choose another path"):
                async with front(unix=path):
                    pass
            _, writer = await asyncio.open_unix_connection(path)
            writer.close()

    run(main)


def test_a_live_socket_whose_queue_is_full_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(places_module, "LIVE_CHECK_S", 0.01)
    path = tmp_path / "mqtt.sock"
    with socket.socket(socket.AF_UNIX) as live, socket.socket(socket.AF_UNIX) as waiting:
        live.bind(str(path))
        live.listen(0)
        waiting.connect(str(path))
        assert "in use by another process" in str(fault_of(unix=path))


def test_the_socket_that_another_process_made_meanwhile_stays(run: Run, tmp_path: Path):
    path = tmp_path / "mqtt.sock"

    async def main() -> None:
        async with front(unix=path):
            path.unlink()
            path.write_text("another one's")
        assert path.read_text() == "another one's"

    run(main)


# Why it cannot start.


def test_a_port_in_use_is_one_line_and_leaves_nothing_behind(tmp_path: Path):
    path = tmp_path / "mqtt.sock"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        fault = fault_of(unix=path, port=0, ws_port=port)
        assert str(fault) == f"127.0.0.1:{port}: in use by another process; choose another with --ws-port"
        assert fault.of_place
        assert not path.exists()


@pytest.mark.parametrize(
    ("port", "number", "text"),
    [
        (883, errno.EACCES, "a port below 1024 needs the right CAP_NET_BIND_SERVICE; give the process that right, or"),
        (1883, errno.EACCES, "Permission denied; choose another with --bind, --port"),
        (883, errno.ENOBUFS, "No buffer space available; choose another with --bind, --port"),
    ],
)
def test_a_port_that_the_system_denies(monkeypatch: pytest.MonkeyPatch, port: int, number: int, text: str):
    def denied(*_: object, **__: object) -> socket.socket:
        raise OSError(number, "a longer text, with the address")

    monkeypatch.setattr(socket, "create_server", denied)
    fault = fault_of(port=port)
    assert str(fault).startswith(f"127.0.0.1:{port}: {text}")
    assert fault.of_place


@pytest.mark.parametrize(
    ("bind", "text"),
    [
        ("198.51.100.7", "198.51.100.7:0: Cannot assign requested address; choose another with --bind, --port"),
        ("no such host", "--bind no such host: "),
        ("a" * 70, "--bind aaaa"),
    ],
)
def test_an_address_of_another_machine(bind: str, text: str):
    assert str(fault_of(port=0, bind=bind)).startswith(text)


def test_a_path_that_cannot_have_a_socket(tmp_path: Path):
    (tmp_path / "file").write_text("mine")
    for path, text in [
        (tmp_path / "missing" / "a.sock", "No such file or directory; choose a path whose directory"),
        (tmp_path / "file", "another file is there, not a socket; choose another path"),
        (tmp_path / "file" / "a.sock", "Not a directory; choose a path whose directory"),
        (tmp_path / ("a" * 120), "AF_UNIX path too long; choose"),
        (tmp_path, "another file is there, not a socket"),
    ]:
        fault = fault_of(unix=path)
        assert str(fault).startswith(f"--unix {path}: {text}")
        assert fault.of_place
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "nothing to listen at: give --port, --tls-port, --ws-port or --unix"),
        ({"port": 65_536}, "--port 65536: give one from 0 to 65535"),
        ({"ws_port": -2}, "--ws-port -2: give one from 0 to 65535"),
        ({"port": 1883, "ws_port": 1883}, "port 1883 is given twice: each listener needs a port of its own"),
        ({"port": 0, "bind": ""}, "--bind is empty: give an address of this machine, or 0.0.0.0 for all of them"),
        ({"port": 0, "connections_max": 0}, "--connections-max 0: give at least 1"),
        ({"port": 0, "ws_origins": ("https://a",)}, "--ws-origin is given without --ws-port: browsers connect by"),
        ({"port": 0, "tls_cert": Path("a")}, "--tls-cert is given without --tls-port: no listener would use it"),
        ({"port": 0, "tls_ca": Path("a")}, "--tls-ca is given without --tls-port: no listener would use it"),
        ({"port": 0, "tls_user_from_certificate": True}, "--tls-user-from-certificate is given without --tls-port: no"),
        ({"tls_port": 0}, "--tls-cert is missing: TLS needs --tls-cert and --tls-key"),
        ({"tls_port": 0, "tls_cert": Path("a")}, "--tls-key is missing: TLS needs --tls-cert and --tls-key"),
        (
            {"tls_ws_port": 0, "tls_cert": Path("a"), "tls_key": Path("b"), "tls_user_from_certificate": True},
            "--tls-user-from-certificate needs --tls-ca: the authorities whose certificates name users",
        ),
        ({"ws_port": 0, "ws_origins": ("app.example",)}, "--ws-origin 'app.example': not an origin; give scheme, host"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], text: str):
    fault = fault_of(**options)
    assert str(fault).startswith(text)
    assert not fault.of_place


class Answering(Echo):
    """Answers each piece, before the first of which the client sends another and resets the connection."""

    resets: Callable[[], None] = staticmethod(lambda: None)

    def data_received(self, data: bytes) -> None:
        if not self.received:
            self.resets()
        super().data_received(data)


@pytest.mark.parametrize("kind", ["mqtt", "ws"])
def test_what_a_client_sent_before_it_reset_the_connection_is_read_though_a_write_fails(
    run: Run, kind: str, monkeypatch: pytest.MonkeyPatch
):
    async def main() -> None:
        async with front(Answering, port=0, ws_port=0) as one:
            client = connected(one.port(kind))
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if kind == "ws":
                client.sendall(REQUEST + OFFER + b"\r\n")
                await until(lambda: one.made)
            pieces = [b"first", b"second"]
            if kind == "ws":
                pieces = [frames([(Opcode.BINARY, piece, True)]) for piece in pieces]

            def resets() -> None:
                client.sendall(pieces[1])
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.close()

            monkeypatch.setattr(Answering, "resets", staticmethod(resets))
            client.sendall(pieces[0])
            await until(lambda: one.made and one.made[0].ended.done())
            assert b"".join(one.made[0].received) == b"firstsecond"

    run(main)

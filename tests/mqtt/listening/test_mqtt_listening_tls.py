"""TLS of the listeners: certificates of both sides, new ones, files that are wrong, clients that speak no TLS."""

import asyncio
import ssl
from pathlib import Path

import pytest

from streamd.clients.mqtt.access import username_of_certificate
from streamd.clients.mqtt.listening import ListenFault
from tests.mqtt.listening.front import Certificates, Echo, Pair, Run, front, raw, soon, trusting, until
from tests.mqtt.listening.test_mqtt_listening import fault_of


async def answered(port: int, context: ssl.SSLContext) -> dict[str, object] | None:
    """Return the server's certificate if what is sent comes back; None if there is no connection."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"hello")
        got = await soon(reader.readexactly(5))
    except (OSError, EOFError):
        return None
    certificate = writer.get_extra_info("peercert")
    writer.close()
    return certificate if got == b"hello" else None


def test_an_encrypted_connection_without_a_clients_certificate(run: Run, certificates: Certificates):
    async def main() -> None:
        async with front(tls_port=0, **certificates.options()) as one:
            assert await answered(one.port("mqtts"), trusting(certificates.ca))
            echo = one.made[0]
            assert (echo.kind, echo.names_wanted) == ("mqtts", False)
            assert username_of_certificate(echo.transport.get_extra_info("peercert")) is None
            await soon(echo.ended)

    run(main)


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("who", ["client", "stranger", None])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_shows_its_certificate(
    run: Run, certificates: Certificates, who: str | None, required: bool, version: ssl.TLSVersion
):
    context = trusting(certificates.ca) if who is None else getattr(certificates, who).context(certificates.ca)
    context.maximum_version = version
    options = {"tls_ca": certificates.ca.cert, "tls_user_from_certificate": required, **certificates.options()}

    async def main() -> None:
        async with front(tls_port=0, **options) as one:
            served = await answered(one.port("mqtts"), context) is not None
            assert served == (who == "client" or (who is None and not required))
            if served:
                assert one.made[0].names_wanted == required
                name = username_of_certificate(one.made[0].transport.get_extra_info("peercert"))
                assert name == ("d7" if who == "client" else None)
            else:
                await until(lambda: one.listening.counts.failed == 1)
                assert one.made == []

    run(main)


def test_later_connections_see_a_new_certificate_and_the_others_go_on(run: Run, certificates: Certificates, tmp_path):
    cert, key = tmp_path / "cert", tmp_path / "key"
    first, second = certificates.server, Pair(tmp_path, "server", certificates.ca)

    def install(pair: Pair) -> None:
        cert.write_bytes(pair.cert.read_bytes())
        key.write_bytes(pair.key.read_bytes())

    async def main() -> None:
        install(first)
        async with front(tls_port=0, tls_cert=cert, tls_key=key) as one:
            port = one.port("mqtts")
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(certificates.ca))
            before = writer.get_extra_info("peercert")["serialNumber"]
            install(second)
            assert (await answered(port, trusting(certificates.ca)))["serialNumber"] == before  # type: ignore[index]
            one.listening.reload_certificates()
            assert (await answered(port, trusting(certificates.ca)))["serialNumber"] != before  # type: ignore[index]
            writer.write(b"still here")
            assert await soon(reader.readexactly(10)) == b"still here"
            key.write_bytes(first.key.read_bytes())
            with pytest.raises(ListenFault, match="not the key of the certificate"):
                one.listening.reload_certificates()
            assert (await answered(port, trusting(certificates.ca)))["serialNumber"] != before  # type: ignore[index]
            writer.close()

    run(main)


class StaysOpen(Echo):
    """Would go on sending behind the end of what the client sends."""

    def eof_received(self) -> bool:  # type: ignore[override]
        return True


def test_a_protocol_that_would_stay_open_behind_the_clients_end_does_so_without_tls(
    run: Run, certificates: Certificates
):
    async def main() -> None:
        async with front(StaysOpen, port=0, tls_port=0, **certificates.options()) as one:
            assert await answered(one.port("mqtts"), trusting(certificates.ca))
            await soon(one.made[0].ended)
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port("mqtt"))
            writer.write_eof()
            await until(lambda: len(one.made) == 2 and one.made[1].told)
            for _ in range(20):
                await asyncio.sleep(0)
            one.made[1].transport.write(b"more")
            assert await soon(reader.readexactly(4)) == b"more"
            writer.close()

    run(main)


def test_a_reload_without_tls_does_nothing(run: Run):
    async def main() -> None:
        async with front(port=0) as one:
            one.listening.reload_certificates()

    run(main)


@pytest.mark.parametrize(
    "sent", [b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x00\x00\x00", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 99, b""]
)
def test_a_client_that_speaks_no_tls_is_closed_and_nothing_is_logged(run: Run, certificates: Certificates, sent: bytes):
    async def main() -> None:
        async with front(tls_port=0, **certificates.options()) as one:
            if sent:
                await raw(one.port("mqtts"), sent)
            else:
                (await asyncio.open_connection("127.0.0.1", one.port("mqtts")))[1].close()
            await until(lambda: one.listening.counts.failed == 1)
            assert one.listening.connections == 0
            assert one.made == []

    run(main)


def test_a_client_that_resets_in_the_handshake_or_after_it(run: Run, certificates: Certificates):
    async def main() -> None:
        async with front(tls_port=0, **certificates.options()) as one:
            _, writer = await asyncio.open_connection("127.0.0.1", one.port("mqtts"))
            writer.write(b"\x16\x03\x01\x02\x00\x01")
            await until(lambda: one.listening.connections == 1)
            writer.transport.abort()
            await until(lambda: one.listening.connections == 0)
            _, writer = await asyncio.open_connection("127.0.0.1", one.port("mqtts"), ssl=trusting(certificates.ca))
            await until(lambda: one.made and one.made[0].told)
            writer.transport.abort()
            await soon(one.made[0].ended)

    run(main)


def test_a_handshake_that_does_not_go_on_is_given_up(
    run: Run, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("streamd.clients.mqtt.listening.listening.TLS_HANDSHAKE_S", 0.01)

    async def main() -> None:
        async with front(tls_port=0, **certificates.options()) as one:
            assert await raw(one.port("mqtts"), b"\x16\x03\x01") == b""
            await until(lambda: one.listening.connections == 0)
            assert one.listening.counts.failed == 1

    run(main)


def test_an_old_version_of_tls_is_refused(run: Run, certificates: Certificates):
    context = trusting(certificates.ca)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1

    async def main() -> None:
        async with front(tls_port=0, **certificates.options()) as one:
            assert await answered(one.port("mqtts"), context) is None

    run(main)


def test_files_that_are_missing_wrong_or_of_another_pair(certificates: Certificates, tmp_path: Path):
    good = certificates.options()
    locked = Pair(tmp_path, "locked", certificates.ca, "-passout", "pass:open sesame")
    (tmp_path / "empty").touch()
    for options, text in [
        ({"tls_cert": tmp_path / "no"}, f"--tls-cert {tmp_path / 'no'}: No such file or directory; give a file that"),
        ({"tls_key": tmp_path}, f"--tls-key {tmp_path}: Is a directory; give a file that this process can read"),
        ({"tls_cert": good["tls_key"]}, f"--tls-cert {good['tls_key']}: no certificate in PEM form ("),
        ({"tls_cert": tmp_path / "empty"}, f"--tls-cert {tmp_path / 'empty'}: no certificate in PEM form ("),
        ({"tls_key": good["tls_cert"]}, f"--tls-cert {good['tls_cert']}, --tls-key {good['tls_cert']}: no pair of"),
        ({"tls_key": certificates.client.key}, f"--tls-key {certificates.client.key}: not the key of the certificate"),
        ({"tls_cert": locked.cert, "tls_key": locked.key}, f"--tls-key {locked.key}: the key is encrypted; give one"),
        ({"tls_ca": tmp_path / "no"}, f"--tls-ca {tmp_path / 'no'}: No such file or directory; give a file that"),
        ({"tls_ca": good["tls_key"]}, f"--tls-ca {good['tls_key']}: no certificate in PEM form ("),
    ]:
        fault = fault_of(tls_port=0, **{**good, **options})
        assert str(fault).startswith(text)
        assert not fault.of_place

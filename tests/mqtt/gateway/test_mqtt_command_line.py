"""`streamd mqtt` as a process: its own server, its end, its logs, and what is wrong with its options."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis

from streamd import cli
from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.properties import Property
from streamd.clients.topics import TopicLog
from tests.mqtt.gateway.in_process import WAIT_S, connect
from tests.spark.deployments import make_certificates

ROOT = Path(__file__).resolve().parents[3]
LASTING = {Property.SESSION_EXPIRY_INTERVAL: 1_000}


@asynccontextmanager
async def started(*options):
    """A gateway with its port and its banner; afterwards it must have ended."""
    words = ("-m", "streamd", "mqtt", "--port", "0", *map(str, options))
    environment = {name: value for name, value in os.environ.items() if name != "STREAMD_URL"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        process.banner = []
        async with asyncio.timeout(60):
            while (line := (await process.stdout.readline()).decode()).strip() != "ready":
                assert line, await process.stderr.read()
                process.banner.append(line)
        (place,) = [one for one in process.banner if one.split()[0] == "mqtt"]
        process.port = int(place.rpartition(":")[2])
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ended(process, sent=None):
    """Return the exit code, and the lines on stderr."""
    if sent is not None:
        process.send_signal(sent)
    async with asyncio.timeout(WAIT_S):
        errors = (await process.stderr.read()).decode()
        return await process.wait(), errors.splitlines()


def process_of(directory):
    with redis.Redis(unix_socket_path=str(directory / "streamd.sock")) as client:
        return client.info("server")["process_id"]


def is_running(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_its_own_server_ends_with_it_and_keeps_all(tmp_path, sent):
    async def main():
        async with started("--dir", tmp_path / "data") as gateway:
            device = await connect(gateway.port, "device", properties=LASTING)
            await device.subscribe(p.Subscription("t", 1))
            publisher = await connect(gateway.port, "publisher")
            await publisher.publish(b"t", b"1")
            server = process_of(tmp_path / "data")
            code, lines = await ended(gateway, sent)
            assert (code, lines) == (0, [])
            assert not is_running(server)
        async with started("--dir", tmp_path / "data", "--retention", "60") as gateway:
            assert not any("retention" in one for one in gateway.banner)
            device = await connect(gateway.port, "device", clean=False, properties=LASTING)
            assert device.connack.session_present
            assert (await device.receive()).payload == b"1"

    asyncio.run(main())


@pytest.mark.parametrize("moment", ["its server is there", "it is ready"])
def test_a_signal_ends_it_in_order_as_soon_as_it_has_begun(tmp_path, moment):
    """A signal right behind `ready`, or before it, ends the server, too, and is no end by a signal."""
    words = [sys.executable, "-m", "streamd", "mqtt", "--port", "0", "--dir", str(tmp_path / "data")]
    environment = {name: value for name, value in os.environ.items() if name != "STREAMD_URL"}
    gateway = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        if moment == "it is ready":
            assert gateway.stdout is not None
            assert "  ready\n" in iter(gateway.stdout.readline, "")
            gateway.send_signal(signal.SIGHUP)
        else:
            while not (tmp_path / "data" / "streamd.lock").exists():
                assert gateway.poll() is None
                os.sched_yield()
        gateway.send_signal(signal.SIGTERM)
        gateway.communicate(timeout=WAIT_S)
        assert gateway.returncode == 0
    finally:
        gateway.kill()
        gateway.communicate()
    with pytest.raises(redis.ConnectionError):
        process_of(tmp_path / "data")


def test_it_ends_when_its_own_server_is_killed(tmp_path):
    async def main():
        async with started("--dir", tmp_path / "data") as gateway:
            os.kill(process_of(tmp_path / "data"), signal.SIGKILL)
            code, lines = await ended(gateway)
            assert code == 3
            assert lines[-1].startswith("streamd: the gateway's own server has ended: ")

    asyncio.run(main())


def test_its_server_does_not_outlive_a_kill_for_the_next_one(tmp_path):
    """After kill -9 of the gateway the next one can be started at once, with all that was acknowledged."""

    async def main():
        async with started("--dir", tmp_path / "data") as gateway:
            device = await connect(gateway.port, "device")
            await device.publish(b"t", b"1")
            await ended(gateway, signal.SIGKILL)
        async with started("--dir", tmp_path / "data") as gateway:
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(
                p.Subscription("t", 1), properties={Property.USER_PROPERTY: (("start", "earliest"),)}
            )
            assert (await reader.receive()).payload == b"1"

    asyncio.run(main())


def test_logs_by_prefix_with_settings_of_their_own(streamd_store):
    async def main():
        logs = ("--log", "devices=telemetry,shards=3,retention=60", "--log", "alarms/fire=alarms", "--shards", "2")
        async with started("--url", streamd_store, *logs, "--retention", "900") as gateway:
            device = await connect(gateway.port, "device")
            reader = await connect(gateway.port, "reader")
            await reader.subscribe(p.Subscription("#", 1))
            topics = [b"devices/a", b"devices", b"devicesx/a", b"alarms/fire/1", b"alarms/water", b"x"]
            for topic in topics:
                await device.publish(topic, b"1")
            assert sorted([(await reader.receive()).topic for _ in topics]) == sorted(topics)
            with redis.Redis.from_url(streamd_store) as client:
                for name, shards, retention_s, count in [
                    ("telemetry", 3, 60, 2),
                    ("alarms", 2, 900, 1),
                    ("mqtt", 2, 900, 3),
                ]:
                    found = TopicLog.open(client, name).info()
                    assert found["retention_s"] == retention_s
                    keys = list(client.scan_iter(f"{{{name}/*}}:g*"))
                    assert len(keys) == shards
                    assert sum(map(client.xlen, keys)) == count
            assert (await ended(gateway, signal.SIGTERM))[0] == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--log", "devices"], 2, "--log devices: give PREFIX=NAME"),
        (["--log", "a=one", "--log", "a/b=two"], 2, "overlaps"),
        (["--log", "a=mqtt"], 2, "mqtt is the log of all other topics; give another name"),
        (["--log", "a=one,shards=none"], 2, "'shards=none' is no setting"),
        (["--log", "$SYS=one"], 2, "the gateway's own"),
        (["--shards", "0"], 2, "--shards 0: give a number from 1 to 1024"),
        (["--retention", "-5"], 2, "--retention -5: give a number from 1 to"),
        (["--retention", "9" * 20], 2, "--retention 99999999999999999999: give a number from 1 to"),
        (["--sys-interval", "9" * 20], 2, "--sys-interval 99999999999999999999: give seconds up to"),
        (["--idempotent-content", "$share/g/a/b=5"], 2, "messages have no share; give a/b=5"),
        (["--dir", ""], 2, "argument --dir: it is empty; give a path"),
        (["--acl-file", ""], 2, "argument --acl-file: it is empty; give a path"),
        (["--idempotent-content", "a"], 2, "--idempotent-content a: give FILTER=SECONDS"),
        (["--idempotent-content", "a/#/b=5"], 2, "--idempotent-content a/#/b=5"),
        (["--receive-maximum", "0"], 2, "--receive-maximum 0: give a number from 1 to 65535"),
        (["--packet-bytes-max", "5"], 2, "--packet-bytes-max 5"),
        (["--packet-bytes-max", "16777217"], 2, "from 1024 to 16777216; beside larger packets other clients wait"),
        (["--sys-interval", "-1"], 2, "--sys-interval -1"),
        (["--password-file", "/nowhere/passwords"], 2, "/nowhere/passwords"),
        (["--acl-file", "/nowhere/acl"], 2, "/nowhere/acl"),
        (["--application", ""], 2, "--application: it is empty; give a glob, such as backend-*"),
        (["--application-user", ""], 2, "--application-user: it is empty; give a glob, such as service-*"),
        (["--application-pack", "0"], 2, "--application-pack 0: give a number from 1 to 65535"),
        (["--application-share-pack", "65536"], 2, "--application-share-pack 65536: give a number from 1 to 65535"),
        (["--application-wait", "0"], 2, "--application-wait 0: give a number from 1 to 86400"),
        (["--application-retries", "-1"], 2, "--application-retries -1: give a number from 0 to 1000000"),
        (["--application-flush", "0"], 2, "--application-flush 0: give a number from 1 to 65535"),
        (["--application-strategy", "drop"], 2, "argument --application-strategy: invalid choice: 'drop'"),
        (["--tls-port", "0"], 2, "--tls-cert"),
        (["--url", "http://127.0.0.1"], 2, "--url or STREAMD_URL: Redis URL must specify"),
        (["--url", "redis://h:x"], 2, "--url or STREAMD_URL: Port could not be cast"),
        pytest.param(["--url", "redis://u:p@127.0.0.1:1"], 3, "streamd: redis://127.0.0.1:1: ", marks=pytest.mark.long),
        (["--bind", "no.such.host.invalid"], 2, "--bind no.such.host.invalid"),
        (["--dir", "/proc/nowhere"], 3, "--dir /proc/nowhere"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, options, code, says):
    words = [sys.executable, "-m", "streamd", "mqtt", "--port", "0"]
    if "--url" not in options and "--dir" not in options:
        words += ["--dir", str(tmp_path / "data")]
    done = subprocess.run([*words, *options], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    lines = done.stderr.splitlines()
    assert done.returncode == code, lines
    assert [one for one in lines if one.startswith("streamd: ") and says in one], lines
    assert len(lines) == 1, lines
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--retenton", "5"], "--retenton is not known; did you mean '--retention'?"),
        (["--retention", "5", "clients", "--cont", "5"], "--cont is not known; did you mean '--count'?"),
        (["--dir", "clients", "--xyzzy", "5"], "--xyzzy is not known (see streamd mqtt --help)"),
        (["bench", "p2p", "--qoss=1"], "--qoss=1 is not known; did you mean '--qos'?"),
        (["session", "a", "b"], "b is not known (see streamd mqtt session --help)"),
    ],
)
def test_an_unknown_word_is_named_with_what_was_meant(capsys, words, says):
    assert cli.main(["mqtt", *words]) == 2
    assert capsys.readouterr().err == f"streamd: {says}\n"


@pytest.mark.parametrize("words", ["", "--port 1884", "clients --json", "session x", "bench p2p --seconds 1"])
def test_without_the_extra_a_line_says_what_to_install_whatever_the_words_are(monkeypatch, capsys, words):
    monkeypatch.setitem(sys.modules, "streamd.clients.mqtt.options", None)
    assert cli.main(["mqtt", *words.split()]) == 2
    assert capsys.readouterr().err == ("streamd: the gateway needs more packages: pip install 'streamd-server[mqtt]'\n")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["clients", "--url", "redis://h:x"], 2, "--url or STREAMD_URL: Port could not be cast"),
        (["session", "a", "--dir", ""], 2, "argument --dir: it is empty; give a path"),
        (["disconnect", "a", "--dir", "nowhere"], 3, "no gateway runs in nowhere; name its store"),
        (["bench", "p2p", "--rate", "x"], 2, "argument --rate: 'x': give a number of at least 0"),
        (["bench", "p2p", "--host", "a" * 70 + ".example"], 3, ".example:1883: no host can have this name"),
        (["bench", "in", "--prefix", "x" * 1_001], 2, "--prefix: give at most 1000 bytes"),
        (["bench", "out", "--prefix", "\udc80"], 2, "--prefix: it is not UTF-8"),
        (["bench", "idle", "--username", "x" * 65_536], 2, "--username: give at most 65535 bytes"),
        (["bench", "p2p", "--unix", ""], 2, "--unix: it is empty"),
    ],
)
def test_what_is_wrong_for_a_command_is_said_in_one_line(monkeypatch, capsys, words, code, says):
    monkeypatch.delenv("STREAMD_URL", raising=False)
    assert cli.main(["mqtt", *words]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("streamd: ")
    assert says in line


def test_a_negative_number_of_clients_is_refused(streamd_store, capsys):
    assert cli.main(["mqtt", "clients", "--url", streamd_store, "--count", "-1"]) == 2
    assert capsys.readouterr().err == "streamd: --count -1: give the number of clients, or 0 for all\n"


def test_a_file_with_a_fault_is_not_said_to_be_read_again(streamd_store, tmp_path):
    rules = tmp_path / "acl"
    rules.write_text("topic readwrite #\n")

    async def main():
        async with started("--url", streamd_store, "--acl-file", rules) as gateway:
            assert b"--acl-file without --password-file" in await gateway.stderr.readline()
            rules.write_text("nonsense\n")
            gateway.send_signal(signal.SIGHUP)
            assert b"the earlier rules stay" in await gateway.stderr.readline()
            rules.write_text("topic read #\n")
            gateway.send_signal(signal.SIGHUP)
            assert b"users and rights were read again" in await gateway.stderr.readline()

    asyncio.run(main())


def test_a_listener_without_tls_takes_no_names_from_certificates(streamd_store, tmp_path):
    """So any client of it may name itself as any user, which is said at the start."""
    make_certificates(tmp_path)
    rules = tmp_path / "acl"
    rules.write_text("topic readwrite #\n")
    tls = ["--tls-port", "0", "--tls-cert", tmp_path / "server.pem", "--tls-key", tmp_path / "server.key"]
    tls += ["--tls-ca", tmp_path / "ca.pem", "--tls-user-from-certificate", "--acl-file", rules]

    async def main():
        async with started("--url", streamd_store, *tls) as gateway:
            code, lines = await ended(gateway, signal.SIGTERM)
            assert code == 0
            assert [one for one in lines if "any client may name itself as any user" in one] == lines != []

    asyncio.run(main())


def test_the_log_says_why_a_subscription_was_refused(streamd_store):
    async def main():
        async with started("--url", streamd_store) as gateway:
            client = await connect(gateway.port, "c")
            tomorrow = {Property.USER_PROPERTY: (("start", "tomorrow"),)}
            await client.subscribe(p.Subscription("t", 1), properties=tomorrow)
            line = (await gateway.stderr.readline()).decode()
            assert re.search(r"client 'c' at .*: 't': SUBSCRIBE refused with 0x83: .*tomorrow", line)

    asyncio.run(main())


def test_a_port_that_is_taken(streamd_store):
    async def main():
        async with started("--url", streamd_store) as gateway:
            words = [sys.executable, "-m", "streamd", "mqtt", "--url", streamd_store, "--port", str(gateway.port)]
            second = await asyncio.create_subprocess_exec(
                *words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            code, lines = await ended(second)
            assert (code, len(lines)) == (3, 1)
            assert lines[0].endswith("in use by another process; choose another with --port")

    asyncio.run(main())

"""Options that do not fit, brokers that cannot be reached or refuse: one line and an exit code."""

import asyncio
import os
import socket

import pytest

from streamd.clients.mqtt.bench import connecting
from streamd.clients.mqtt.bench.file_limit import TooFewFiles, make_room
from tests.mqtt.bench.fake_broker import Fake, running
from tests.mqtt.bench.running_bench import SHORT, bench


def said(capsys, *words):
    """Return the exit code and the line on stderr, and check that it is one."""
    code = bench(*words)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("streamd: ")
    assert err.count("\n") == 1, err
    return code, err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("p2p --port 0", "--port 0"),
        ("p2p --port 65536", "--port 65536"),
        ("p2p --size 23", "--size 23: give 24 to"),
        ("p2p --size 268435455", "--size 268435455"),
        ("p2p --under-way 65536", "--under-way 65536"),
        ("idle --keep-alive 65536", "--keep-alive 65536"),
        ("idle --keep-alive -1", "--keep-alive -1"),
        ("in --prefix a/#", "--prefix 'a/#'"),
        ("in --prefix $SYS", "--prefix '$SYS'"),
        ("out --password x", "--username"),
        ("out --unix /no/socket --tls-ca ca.pem", "a Unix socket has no TLS"),
        ("p2p --tls-ca /no/such/file", "--tls-ca /no/such/file: No such file"),
        ("p2p --clients 600000000", "raise it (ulimit -Hn)"),
        ("p2p --process 999999999", "process 999999999 does not exist"),
    ],
)
def test_options_that_do_not_fit_are_named_in_one_line(capsys, words, text):
    code, line = said(capsys, *words.split())
    assert code == 2
    assert text in line


@pytest.mark.parametrize(
    "words",
    ["", "p3p", "p2p --clients 0", "p2p --rate -1", "p2p --rate inf", "p2p --rate nan", "p2p --qos 3",
     "p2p --version 3", "p2p --seconds 0", "in --process x", "idle --qos 1"],
)  # fmt: skip
def test_words_that_are_no_options_end_it_with_2(capsys, words):
    with pytest.raises(SystemExit) as ended:
        bench(*words.split())
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["p2p", "in", "out", "idle"])
def test_a_broker_that_is_not_there_ends_it_with_3(capsys, kind):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        code, line = said(capsys, kind, "--port", str(port))
    assert code == 3
    assert f"127.0.0.1:{port}: " in line
    assert "refused" in line


def test_a_socket_that_is_not_there_ends_it_with_3(capsys, tmp_path):
    code, line = said(capsys, "p2p", "--unix", str(tmp_path / "none"))
    assert (code, line) == (3, f"streamd: {tmp_path / 'none'}: No such file or directory\n")


def test_a_socket_whose_backlog_is_full_is_tried_again(tmp_path, monkeypatch):
    path = str(tmp_path / "mqtt.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        waiting[0].connect(path)  # nobody accepts it
        waiting[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            waiting[1].connect(path)
        tried, slept = [], asyncio.sleep

        async def sleep(seconds):
            tried.append(seconds)
            if len(tried) == 2:
                listening.accept()[0].close()
            await slept(0)

        monkeypatch.setattr(connecting.asyncio, "sleep", sleep)
        # Then it is let in, and found to be no broker: nobody answers its CONNECT.
        monkeypatch.setattr(connecting, "_PATIENCE_S", 0.2)
        assert bench("p2p", "--unix", path, *SHORT) == 3
        assert len(tried) == 2
        for one in waiting:
            one.close()


def test_a_name_that_nobody_knows_ends_it_with_3(capsys):
    code, line = said(capsys, "p2p", "--host", "no-such-host.invalid")
    assert code == 3
    assert "no-such-host.invalid:1883" in line


@pytest.mark.parametrize(
    ("fake", "version", "text"),
    [
        (Fake(connack=5), 4, "refused CONNECT with 0x05 (not authorized)"),
        (Fake(connack=0x88), 5, "refused CONNECT with 0x88"),
        (Fake(closes=True), 4, "closed the connection"),
        (Fake(garbage=True), 4, "sent what MQTT does not allow"),
        (Fake(suback=0x80), 4, "refused the subscription to bench/"),
        (Fake(suback=0x87), 5, "with 0x87"),
        (Fake(hangs_up={5}), 4, "closed the connection"),
    ],
)
def test_a_broker_that_refuses_ends_it_with_3(capsys, fake, version, text):
    with running(fake):
        code, line = said(capsys, "p2p", "--clients", "3", "--port", str(fake.port), "--version", str(version), *SHORT)
    assert code == 3
    assert text in line


def test_the_soft_limit_of_files_is_raised_and_the_hard_one_is_not():
    resource = pytest.importorskip("resource")
    soft, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        pytest.skip("there is no limit")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
        make_room(10)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(256, soft)
        make_room(hard - 100)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        with pytest.raises(TooFewFiles, match=f"hard limit is {hard:,}"):
            make_room(hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_an_own_process_is_one_whose_cpu_is_told(capsys):
    with running(Fake()) as fake:
        assert bench("p2p", "--clients", "2", "--port", str(fake.port), "--process", str(os.getpid()), *SHORT) == 0
    text = capsys.readouterr().out
    assert " us a message" in text
    assert "messages/s (in + out) per core" in text

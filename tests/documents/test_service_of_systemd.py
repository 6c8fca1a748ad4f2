"""The service of docs/security.md: its file starts a server that lets in whom it names, its unit is one of systemd."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import redis

from bench.ports import free_port
from tests.documents.blocks import ROOT, blocks_for
from tests.integration.process import ServerProcess
from tests.spark.deployments import make_certificates

CONF, UNIT = (one.text for one in blocks_for(__file__))
CREDENTIALS = "/run/credentials/streamd.service/"


def test_the_file_starts_a_server_with_tls_and_its_users(tmp_path: Path):
    made = make_certificates(tmp_path)
    places = dict(zip(("server.pem", "server.key", "ca.pem"), (made.cert, made.key, made.ca), strict=True))
    text = CONF.replace("tls-port 6379", f"tls-port {free_port()}").replace("10.0.0.5", "127.0.0.1")
    text = re.sub(f"{CREDENTIALS}(\\S+)", lambda found: str(places[found[1]]), text)
    (tmp_path / "streamd.conf").write_text(re.sub("#<[^>]*>", f"#{hashlib.sha256(b'secret').hexdigest()}", text))
    tls = {"ssl_ca_certs": str(made.ca), "ssl_certfile": str(made.client_cert), "ssl_keyfile": str(made.client_key)}
    with ServerProcess(tmp_path / "data", str(tmp_path / "streamd.conf")) as server:
        assert "(TLS)" in "".join(server.banner)

        def client(**user: str) -> redis.Redis:
            return redis.Redis("localhost", server.port, ssl=True, ssl_password=made.client_key_password, **tls, **user)  # type: ignore[call-overload]

        assert client(username="orders", password="secret").xadd("orders:1", {"f": "v"})
        with pytest.raises(redis.exceptions.NoPermissionError):
            client(username="orders", password="secret").get("orders:1")
        with pytest.raises(redis.exceptions.AuthenticationError):
            client().ping()


def test_each_file_of_the_service_is_handed_over():
    handed_over = dict(re.findall(r"^LoadCredential=([^:]+):/etc/streamd/(.+)$", UNIT, re.MULTILINE))
    assert all(name == file for name, file in handed_over.items())
    assert {*re.findall(f"{CREDENTIALS}(\\S+)", CONF), "streamd.conf"} == set(handed_over)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit_with_what_is_added_to_it(tmp_path: Path):
    (tmp_path / "streamd.service.d").mkdir()
    for path, text in (
        ("streamd.service", (ROOT / "deploy" / "systemd" / "streamd.service").read_text()),
        ("streamd.service.d/override.conf", UNIT),
    ):
        (tmp_path / path).write_text(text.replace("/opt/streamd/bin/streamd", "/bin/true"))
    words = ["systemd-analyze", "verify", str(tmp_path / "streamd.service")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")

"""What docs/mqtt.md shows runs, and its tables are those of the code."""

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.ports import free_port
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.options import add_gateway_options
from tests.documents.blocks import ROOT, Block, blocks_for
from tests.integration.process import ServerProcess
from tests.spark.deployments import make_certificates

TEXT = (ROOT / "docs" / "mqtt.md").read_text(encoding="utf-8")
BLOCKS = blocks_for(__file__)
TIMEOUT_S = 60
needs_clients = pytest.mark.skipif(
    shutil.which("mosquitto_pub") is None, reason="mosquitto's clients are not installed"
)


def options() -> dict[str, object]:
    """Return the options of the gateway with their defaults."""
    parser = argparse.ArgumentParser()
    add_gateway_options(parser)
    return {name: one.default for one in parser._actions for name in one.option_strings}


class Shell:
    """A directory where the lines of a block run; ports, addresses and the store of a --url are those of this test."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.ports = {port: str(free_port()) for port in ("1883", "1884", "8883")}
        self.store: ServerProcess | None = None
        self.gateways: list[subprocess.Popen[str]] = []
        self.said = ""

    def run(self, line: str) -> None:
        """Run a line; a gateway stays."""
        if "6379" in line:
            self.store = self.store or ServerProcess(self.place / "store")
            line = line.replace("6379", str(self.store.port))
        words = shlex.split(re.sub(r"10\.0\.0\.5|192\.0\.2\.7", "127.0.0.1", line))
        words = [self.ports.get(word, word) for word in words]
        if words[0] == "pip":
            (name,) = re.findall(r"\[(\w+)\]", words[2])
            project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
            assert name in project["optional-dependencies"]
        elif words[:2] == ["streamd", "mqtt"] and all(word.startswith("--") for word in words[2:3]):
            if "--port" not in words:
                words += ["--port", self.ports["1883"]]
            self.start([sys.executable, "-m", *words])
        else:
            if words[0] == "streamd":
                words = [sys.executable, "-m", *words]
            if words[0] in ("mosquitto_pub", "mosquitto_sub"):
                words += ["-p", self.ports["1883"]]
            done = subprocess.run(words, cwd=self.place, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            assert done.returncode == 0, done.stderr
            self.said += done.stdout

    def start(self, words: list[str]) -> None:
        """Start a gateway; return when it serves."""
        environment = {name: value for name, value in os.environ.items() if name != "STREAMD_URL"}
        process = subprocess.Popen(
            words,
            cwd=self.place,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.gateways.append(process)
        assert process.stdout is not None
        self.said = ""
        for line in process.stdout:
            self.said += line
            if line == "  ready\n":
                return
        raise AssertionError(f"{words} ended: {self.said}")

    def end(self) -> None:
        """End the gateways as Ctrl-C does."""
        for one in self.gateways:
            one.send_signal(signal.SIGINT)
            one.communicate(timeout=TIMEOUT_S)
            assert one.returncode == 0, one.args


@pytest.fixture
def shell() -> Iterator[Shell]:
    with tempfile.TemporaryDirectory() as place:  # whose path is short enough for a socket
        shell = Shell(Path(place))
        yield shell
        for one in shell.gateways:
            one.kill()
            one.communicate()
        if shell.store is not None:
            shell.store.stop()


@needs_clients
@pytest.mark.parametrize("block", [one for one in BLOCKS if one.language == "sh"], ids=str)
def test_the_lines_of_a_block_end_well(block: Block, shell: Shell):
    lines = block.text.replace("\\\n", " ").splitlines()
    if "--acl-file acl" in block.text:
        (shell.place / "acl").write_text("pattern write devices/%c/#\n")
    if "--tls-port" in block.text:
        make_certificates(shell.place)
        for name in ("mosquitto.passwords", "mosquitto.acl"):
            shutil.copy(ROOT / "tests" / "mqtt" / name, shell.place)
    if not any(line.startswith("streamd mqtt") for line in lines):
        shell.run("streamd mqtt")
    for line in lines:
        shell.run(line)
    if "mosquitto_sub" in block.text:
        assert shell.said.endswith("21.5\n")
    shell.end()


def test_the_banner_is_what_a_gateway_prints(shell):
    (banner,) = [one for one in BLOCKS if one.language == "text"]
    shell.run("streamd mqtt")
    printed = shell.said.replace(shell.ports["1883"], "1883")
    assert re.sub(r"process \d+", "process 4711", printed) == banner.text
    shell.end()


def test_the_file_of_mosquitto_is_the_one_that_is_tested():
    (block,) = [one for one in BLOCKS if one.language == "conf"]
    lines = (ROOT / "tests" / "mqtt" / "mosquitto.conf").read_text().splitlines()
    tested = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in block.text.splitlines() if line] == tested


def test_the_limits_are_those_of_the_command_line():
    table = TEXT.split("| option | default | beyond it |\n")[1].split("\n\n")[0]
    said = dict(re.findall(r"^\| `(--[a-z-]+)` \| ([\d,]+)", table, re.MULTILINE))
    parser = argparse.ArgumentParser()
    add_gateway_options(parser)
    (group,) = [one for one in parser._action_groups if one.title == "limits"]
    wanted = {one.option_strings[0]: f"{one.default:,}" for one in group._group_actions}
    assert said == wanted
    assert f"{Limits().client_id_bytes_max:,} bytes" in TEXT
    assert f"within {Limits().connect_s:g} seconds" in TEXT


def test_the_options_of_backends_are_those_of_the_command_line():
    table = TEXT.split("| option | default | meaning |\n")[1].split("\n\n")[0]
    said = dict(re.findall(r"^\| `(--[a-z0-9-]+)` \| (\w+)", table, re.MULTILINE))
    words = {"none": [], "off": False}
    found = {name: words.get(text, int(text) if text.isdigit() else text) for name, text in said.items()}
    wanted = {name: one for name, one in options().items() if "application" in name or name == "--resend-v5"}
    assert found == wanted


def test_the_document_has_every_option_and_no_other():
    named = {one for one in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", TEXT) if one not in ("--keep", "--applications")}
    assert sorted(named - options().keys()) == []
    assert sorted(options().keys() - named - {"--help", "-h"}) == []


def test_the_files_that_the_document_names_exist():
    for path in re.findall(r"`((?:tests|demo|examples)/[\w/.]+)`", TEXT):
        assert (ROOT / path).exists(), path

"""What the README says is so: its examples run, its table of options is the server's."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamd.commands  # noqa: F401  (declares them)
from streamd import cli
from streamd.base.clock import Clock
from streamd.base.config import OPTIONS
from streamd.catalog import COMMANDS
from streamd.testing import EmbeddedServer

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
CONSOLE = re.findall(r"^127\.0\.0\.1:6379> (.*)\n(.*)$", README, re.MULTILINE)


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    with EmbeddedServer(Clock()) as server:
        yield str(server.port)


def test_the_example_of_a_service_runs(port):
    (example,) = [block for block in PYTHON if "import redis" in block]
    exec(compile(example.replace("6379", port), "README.md", "exec"), {})


def test_the_example_of_a_test_passes(streamd_server, streamd_client):
    (example,) = [block for block in PYTHON if "def test_" in block]
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    (test,) = [value for name, value in names.items() if name.startswith("test_")]
    assert callable(test)
    test(streamd_server, streamd_client)


def test_redis_cli_would_show_what_the_readme_shows(streamd_client):
    assert len(CONSOLE) == 3
    seen: dict[str, object] = {}
    for request, shown in CONSOLE:
        reply = streamd_client.execute_command(*request.split())
        assert (f"(integer) {reply}" == shown) if isinstance(reply, int) else re.fullmatch(r'"\d+-\d+"', shown)
        assert seen.setdefault(shown, reply) == reply


def test_the_table_of_options_is_that_of_the_server():
    section = README.split("## Options of `streamd serve`")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `--")]
    offered = [option for option in OPTIONS.values() if option.flag]
    wanted = [f"| `--{one.name}` | {one.format(one.default) or 'none'} | {one.help} |" for one in offered]
    assert rows == wanted, "the table should be:\n" + "\n".join(wanted)


def test_the_commands_on_values_are_those_of_the_server():
    section = README.split("## Commands")[1].split("\n## ")[0]
    groups = [
        ("streams", "stream"), ("strings, bits", "string bitmap"), ("hashes", "hash"), ("lists", "list"),
        ("sets", "set"), ("sorted sets", "sorted-set"), ("keys", "generic"),
    ]  # fmt: skip
    wanted = []
    for title, names in groups:
        found = sorted(name.decode().upper() for name, one in COMMANDS.items() if one.group in names.split())
        wanted.append(f"| {title} | {' '.join(found)} |")
    rows = section.split("|---|---|\n")[1].strip().splitlines()
    assert rows == wanted, "the table should be:\n" + "\n".join(wanted)


def test_the_exit_codes_are_those_of_the_command_line():
    section = README.split("Exit codes: ")[1].split("\n\n")[0]
    codes = [int(number) for number in re.findall(r"(?:^|,)\s*(\d)\s", section)]
    assert codes == sorted(
        value for name, value in vars(cli).items() if name.startswith("EXIT_") and isinstance(value, int)
    )

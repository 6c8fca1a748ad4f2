"""A command is added by one file: nothing else names it."""

import subprocess
import sys
from pathlib import Path
from shutil import copytree

import streamd

COMMAND = '''"""SAYHELLO: greet somebody."""

from streamd.catalog import Context, command
from streamd.resp.types import Reply


@command("SAYHELLO", arity=2, flags="readonly fast", since="0.1.0", complexity="O(1)", group="generic", syntax="name")
def sayhello(context: Context, args: list[bytes]) -> Reply:
    """Return a greeting."""
    return b"hello " + args[1]
'''
PROGRAM = """
from streamd.engine.engine import Engine

engine = Engine()
client = engine.connect()
assert engine.call(client, [b"SAYHELLO", b"world"]) == b"hello world"
assert str(engine.call(client, [b"sayhello"])) == "ERR wrong number of arguments for 'sayhello' command"
(described,) = engine.call(client, [b"COMMAND", b"INFO", b"sayhello"])
assert described[:2] == [b"sayhello", 2], described
docs = engine.call(client, [b"COMMAND", b"DOCS", b"sayhello"])[b"sayhello"]
assert docs[b"summary"] == b"Return a greeting", docs
print("done")
"""


def test_a_command_is_one_file_that_is_dropped_in(tmp_path: Path):
    copytree(Path(streamd.__file__).parent, tmp_path / "streamd")
    (tmp_path / "streamd" / "commands" / "keys" / "sayhello.py").write_text(COMMAND)
    words = [sys.executable, "-P", "-c", PROGRAM]
    where = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, env=where, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")

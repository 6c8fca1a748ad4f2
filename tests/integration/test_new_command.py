"""A command is added by one file, as docs/new-command.md says: nothing else names it."""

import subprocess
import sys
from pathlib import Path
from shutil import copytree

import streamd
from tests.documents.blocks import ROOT, blocks_for

FILE, TEST = (one.text for one in blocks_for(__file__) if one.language == "python")
(SESSION,) = (one.text for one in blocks_for(__file__) if one.language == "redis")
PROGRAM = """
import sys

from streamd.engine.engine import Engine
from tests.documents.redis_cli import shown, steps
from tests.session import Session

engine = Engine()
client = engine.connect()
assert engine.call(client, [b"SAYHELLO", b"world"]) == b"hello world"
assert str(engine.call(client, [b"sayhello"])) == "ERR wrong number of arguments for 'sayhello' command"
(described,) = engine.call(client, [b"COMMAND", b"INFO", b"sayhello"])
assert described[:2] == [b"sayhello", 2], described
docs = engine.call(client, [b"COMMAND", b"DOCS", b"sayhello"])[b"sayhello"]
assert docs[b"summary"] == b"Return a greeting", docs

test, session = sys.argv[1:]
for step in steps(session):
    assert shown(Session().raw(step.line.split())) == step.shown, step
names = {}
exec(test, names)
names["test_somebody_is_greeted"](Session())
print("done")
"""


def test_a_command_is_one_file_that_is_dropped_in(tmp_path: Path):
    copytree(Path(streamd.__file__).parent, tmp_path / "streamd")
    (tmp_path / "streamd" / "commands" / "keys" / "sayhello.py").write_text(FILE)
    words = [sys.executable, "-P", "-c", PROGRAM, TEST, SESSION]
    where = {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(words, env=where, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("done\n", "")

"""The sessions of redis-cli in the documents: each request gets the reply that is shown below it."""

import shlex
import shutil
import subprocess

import pytest

from streamd.base.clock import ManualClock
from streamd.testing import EmbeddedServer
from tests.differential.redis_process import RawClient
from tests.documents.blocks import Block, blocks_for
from tests.documents.redis_cli import shown, steps

BEGIN_MS = 1_795_248_000_000  # the time in the IDs that the documents show


@pytest.mark.parametrize("block", blocks_for(__file__), ids=str)
def test_replies_are_those_that_are_shown(block: Block):
    with EmbeddedServer(ManualClock(BEGIN_MS)) as server:
        client = RawClient(server.port)
        for step in steps(block.text):
            if step.seconds:
                server.advance(milliseconds=round(step.seconds * 1000))
                continue
            words = [word.replace("\\n", "\n").encode() for word in shlex.split(step.line)]  # as redis-cli reads them
            reply = shown(client.ask(words))
            assert step.shown in (reply, ""), step.line
            assert step.shown or not reply.startswith("(error)"), step.line
        client.close()
        assert server.internal_errors == 0


@pytest.mark.parametrize(
    "words",
    ["PING", "GET none", "GET k", "XRANGE s - +", "XRANGE s 2 +", "NONE", "XLEN s", "COMMAND INFO GET XADD none"],
)
@pytest.mark.skipif(shutil.which("redis-cli") is None, reason="there is no redis-cli to compare with")
def test_the_form_of_replies_is_that_of_redis_cli(words):
    with EmbeddedServer(ManualClock(BEGIN_MS)) as server:
        client = RawClient(server.port)
        client.ask([b"SET", b"k", b'a"\n\xff'])
        client.ask([b"XADD", b"s", b"1-1", *(word for at in range(11) for word in (b"f%d" % at, b"v"))])
        redis_cli = ["redis-cli", "--no-raw", "-p", str(server.port), *words.split()]
        theirs = subprocess.run(redis_cli, capture_output=True, text=True, timeout=30, check=False).stdout
        ours = shown(client.ask(words.encode().split()))
        client.close()
    assert ours.rstrip("\n") == theirs.rstrip("\n")

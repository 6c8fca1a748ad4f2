"""The Python of the documents runs, a document's blocks one after another, and tests in it pass."""

import inspect
from collections.abc import Callable

import pytest

from streamd.base.clock import Clock
from streamd.testing import EmbeddedServer
from tests.documents.blocks import blocks_for

DOCUMENTS = sorted({one.document for one in blocks_for(__file__)})


def run_test(test: Callable[..., None]) -> None:
    """Call a test with the fixtures that it asks for, as pytest would, on a server of its own."""
    with EmbeddedServer() as server:
        fixtures = {"streamd_server": server, "streamd_client": server.client(decode_responses=True)}
        test(**{name: fixtures[name] for name in inspect.signature(test).parameters})


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_blocks_of_a_document_run_one_after_the_other(document):
    names: dict[str, object] = {}
    with EmbeddedServer(Clock()) as server:
        for block in blocks_for(__file__, document):
            before = set(names)
            exec(compile(block.text.replace("6379", str(server.port)), str(block), "exec"), names)
            for name in [name for name in names if name not in before and name.startswith("test_")]:
                test = names[name]
                assert callable(test)
                run_test(test)
        assert server.internal_errors == 0

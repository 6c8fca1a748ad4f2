"""Every input that is known to be of interest, and every one that ever failed, as an ordinary test."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamd.resp import fast_decoder
from tests.fuzz.__main__ import CORPUS as KNOWN
from tests.fuzz.__main__ import TARGETS
from tests.fuzz.one_server import one_server

ROOT = Path(__file__).parent.parent.parent
CORPUS = ROOT / KNOWN
INPUTS = [(target, path.name) for target in TARGETS for path in sorted((CORPUS / target).iterdir())]


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """A target tunes the decoder for a process of its own."""
    before = fast_decoder.HIREDIS_BYTES_MIN
    yield
    fast_decoder.HIREDIS_BYTES_MIN = before


@pytest.mark.parametrize(("target", "name"), INPUTS)
def test_a_known_input_keeps_the_promise_of_its_target(target: str, name: str):
    importlib.import_module(f"tests.fuzz.targets.{target}").check((CORPUS / target / name).read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_has_a_corpus_and_says_its_promise(target: str):
    module = importlib.import_module(f"tests.fuzz.targets.{target}")
    assert (module.__doc__ or "").split("\n\n")[0].strip().endswith(".")
    assert "Input: " in (module.__doc__ or "")
    assert all(isinstance(word, bytes) and word for word in module.WORDS)
    assert any(path.is_file() for path in (CORPUS / target).iterdir())


class Equal(bytes):
    """A hash that is equal to every other."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = bytes.__hash__


def forget(context: object, *words: bytes, changes: int = 1) -> None:
    """Record nothing."""


# A bug for each target, at a place that is reached by what the corpus holds.
PLANTED: dict[str, tuple[str, Callable]] = {
    "configuration": ("streamd.configuration.rewriting.quoted", lambda text: text.encode("utf-8", "surrogateescape")),
    "conversions": ("streamd.lua.runtime._escape", lambda match: b"\\u%04x" % (match[0][0] ^ 1)),
    "decoder": ("streamd.resp.fast_decoder._count_lookalikes", lambda data: 0),
    "journal": ("streamd.journal.file_reader.run_hash", lambda body, synced, salt, place=0: Equal(b"")),
    "mqtt": ("streamd.clients.mqtt.codec.names.text_of", bytes.decode),
    "payloads": ("streamd.rdb.streams._write_parts", lambda out, entry_id: out.extend(b"\0\0")),
    "replication": ("streamd.durability.incoming.Incoming.abandon", lambda incoming: None),
    "requests": ("streamd.catalog.context.Context.record", forget),
    "users": ("streamd.catalog.guard._is_plain", lambda command, selector: True),
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_bug_that_is_planted_is_met_by_the_corpus_of_its_target(target: str, monkeypatch):
    check = importlib.import_module(f"tests.fuzz.targets.{target}").check
    inputs = [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]
    place, bug = PLANTED[target]
    one_server.cache_clear()  # what Lua has converted once it knows
    monkeypatch.setattr(place, bug)

    def fails(data: bytes) -> bool:
        try:
            check(data)
        except Exception:
            return True
        return False

    assert any(map(fails, inputs))
    one_server.cache_clear()

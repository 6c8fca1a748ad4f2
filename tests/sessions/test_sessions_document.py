"""What docs/sessions.md shows runs, and what it names exists."""

import re
from pathlib import Path

from streamd.clients.sessions import AsyncDeviceStore, BufferedStore, DeviceStore, Message
from tests.documents.blocks import blocks_for

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "sessions.md").read_text(encoding="utf-8")


def test_the_examples_of_the_document_run_one_after_the_other(server):
    names: dict[str, object] = {}
    examples = blocks_for(__file__)
    assert len(examples) == 2
    for example in examples:
        exec(compile(example.text.replace("6379", str(server.port)), str(example), "exec"), names)


def test_the_methods_and_fields_that_the_document_names_are_there():
    methods = re.findall(r"^\| `(\w+)\(", TEXT, re.MULTILINE)
    assert len(methods) == 7
    for method in methods:
        for kind in (DeviceStore, BufferedStore, AsyncDeviceStore):
            assert callable(getattr(kind, method))
    named = TEXT.split("A `Message` has MQTT's fields:")[1].split("when the broker received the message")[0]
    fields = {word for words in re.findall(r"`([\w\s]+)`", named) for word in words.split()}
    assert fields == set(Message.__dataclass_fields__) - {"packet_id", "packet_type"}


def test_the_files_that_the_document_names_exist():
    named = re.findall(r"`((?:tests|demo)/[\w/]+\.py)`", TEXT)
    assert len(named) >= 4
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_requirements_that_the_document_names_are_tests():
    tests = (ROOT / "tests" / "sessions" / "test_session_requirements.py").read_text(encoding="utf-8")
    for number in range(1, 18):
        assert f"def test_d{number}_" in tests
        assert re.search(rf"\bD{number}\b", TEXT)

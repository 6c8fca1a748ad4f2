"""An empty start waits for nothing that it does not need: what it imports is half of the time until the first reply."""

from pathlib import Path

import pytest

from tests.integration.process import ServerProcess

pytestmark = pytest.mark.interpreted(reason="the form of a module decides what it imports, and when")

# Packages and modules that are imported when somebody asks for what they do; with each, who.
LATER = {
    "backup": "streamd.backup",
    "completion, tail, top, bench": "click rich redis streamd.clients.terminal.app",
    "topics, sessions": "streamd.clients.topics streamd.clients.sessions",
    "ui": "streamd.clients.ui starlette uvicorn jinja2",
    "check": "streamd.checking.data_directory streamd.durability.check",
    "a test": "streamd.testing streamd.pytest_plugin",
    "a configuration file": "streamd.configuration.file streamd.configuration.rewriting difflib tempfile shutil",
    "a script": "streamd.lua.runtime lupa greenlet",
    "an admin port": "streamd.net.exposition prometheus_client",
    "a password": "hashlib hmac",
    "a log file, or one in JSON": "logging.handlers pickle datetime",
    "COMMAND DOCS": "streamd.catalog.syntax",
    "INFO": "platform",
    "stream-memory": "streamd.cold.mover streamd.cold.merging streamd.cold.output zstandard",
    "INCRBYFLOAT": "streamd.base.long_double fractions decimal",
    "a note in a journal": "urllib.parse ipaddress",
    "nobody at all": "pathlib shlex importlib.metadata email http unittest multiprocessing",
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of the modules that a server in an empty directory has imported when it is ready."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPROFILEIMPORTTIME", "1")
        code, _, err = ServerProcess(tmp_path_factory.mktemp("empty")).stop()
    assert code == 0
    return {line.rpartition("|")[2].strip() for line in err.splitlines() if line.startswith("import time:")}


def test_what_python_says_of_imports_is_understood(imported: set[str]):
    assert {"asyncio", "streamd.serving", "streamd.engine.engine"} <= imported


@pytest.mark.parametrize("who", LATER)
def test_an_empty_start_does_not_import_what_only_others_need(imported: set[str], who: str):
    named = LATER[who].split()
    assert sorted(one for one in imported if any(f"{one}.".startswith(f"{name}.") for name in named)) == []


def test_those_modules_are_there(tmp_path: Path):
    own = [name for names in LATER.values() for name in names.split() if name.startswith("streamd.")]
    root = Path(__file__).parents[2]
    places = [root.joinpath(*name.split(".")) for name in own]
    assert [str(place) for place in places if not place.is_dir() and not place.with_suffix(".py").is_file()] == []

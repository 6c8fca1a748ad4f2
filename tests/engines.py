"""The servers that tests make without sockets, whose scripts are freed behind each test."""

from contextlib import suppress
from weakref import WeakSet

from streamd.engine.engine import Engine

MADE: "WeakSet[Engine]" = WeakSet()


def noted(engine: Engine) -> Engine:
    """Return a server, whose scripts are freed behind the test: nothing else frees what Lua refers to."""
    with suppress(TypeError):  # the compiled form's have no weak references
        MADE.add(engine)
    return engine


def free_scripts() -> None:
    """Free the scripts of all servers that were made."""
    for engine in [*MADE]:
        engine.scripts.close()
    MADE.clear()

"""The form of the running source, pure or compiled, and the docstring lines that the compiled form lacks."""

import os
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final


def is_compiled() -> bool:
    """Return whether the hot rooms run compiled: all of them do, this module included, or none does."""
    return not isinstance(is_compiled, FunctionType)


def form() -> str:
    """Return `compiled` or `pure`, for users."""
    return "compiled" if is_compiled() else "pure"


def stale_file() -> str:
    """Return a compiled file of this package whose source is gone (an earlier layout left it); else empty.

    Python would go on to load that file. Only the compiled form looks for one.
    """
    return _stale_file(os.path.dirname(os.path.dirname(__file__))) if is_compiled() else ""


def _stale_file(directory: str) -> str:
    # (A start waits for this: `os.walk`, which looks at __pycache__ as well, takes several ms.)
    entries = [*os.scandir(directory)]
    names = {entry.name for entry in entries}
    for entry in entries:
        name = entry.name
        if name.endswith((".so", ".pyd")) and f"{name.partition('.')[0]}.py" not in names:
            return entry.path
        if name != "__pycache__" and entry.is_dir() and (found := _stale_file(entry.path)):
            return found
    return ""


def summary_of(function: Callable[..., Any]) -> str:
    """Return the first line of a function's docstring, in either form; empty if it has none."""
    text = function.__doc__ or _SUMMARIES.get(f"{function.__module__}.{function.__name__}", "")
    return text.strip().partition("\n")[0]


def _summaries() -> dict[str, str]:
    """Return the first lines of docstrings, written at the build of the compiled form, whose functions have none."""
    import json  # only the compiled form needs it
    from pathlib import Path

    found: dict[str, str] = json.loads(Path(__file__).with_name("summaries.json").read_text("utf-8"))
    return found


_SUMMARIES: Final[dict[str, str]] = _summaries() if is_compiled() else {}

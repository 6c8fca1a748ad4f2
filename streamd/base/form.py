"""The form of the running source, pure or compiled, and what the compiled form lacks."""

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

    Python would go on to load what was built with it. Only the compiled form looks.
    """
    if not is_compiled():
        return ""
    for directory, _, names in os.walk(os.path.dirname(os.path.dirname(__file__))):
        there = set(names)
        for name in names:
            if name.endswith((".so", ".pyd")) and f"{name.partition('.')[0]}.py" not in there:
                return os.path.join(directory, name)
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

"""How many tests ran beside Redis 8.10.2: a line at the end of a run, and a line of a file for the build machine."""

import os
from pathlib import Path
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the number; add it to the file that the variable JUDGED_FILE names."""
    passed = sum("redis" in report.keywords for report in terminalreporter.stats.get("passed", ()))
    if passed:
        terminalreporter.write_line(f"{passed} tests compared streamd with Redis 8.10.2")
    if path := os.environ.get("JUDGED_FILE"):
        with Path(path).open("a") as file:
            file.write(f"{passed}\n")

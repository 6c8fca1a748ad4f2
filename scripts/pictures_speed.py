"""Makes the pictures of docs/speed.md in docs/pictures/, from the figures in bench/results/long.json."""

import json
import sys
from pathlib import Path

from bench import plots

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
FIGURES = ROOT / "bench" / "results" / "long.json"


def pictures() -> dict[str, str]:
    """Return the pictures: name of the file to its text."""
    return plots.draw(json.loads(FIGURES.read_text(encoding="utf-8"))["rows"], "speed")


def main() -> int:
    """Make the pictures; return an exit code."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (PICTURES / name).write_text(text, encoding="utf-8")
        print(PICTURES / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

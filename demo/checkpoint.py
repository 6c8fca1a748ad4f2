"""Reads a running query's checkpoint: the open micro-batch, and its end."""

import json
import re
from pathlib import Path


class Checkpoint:
    """A checkpoint directory, read from outside: offsets/N is written before batch N runs, commits/N after it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open_batch(self) -> int | None:
        """Return the number of the batch that was planned and is not committed, None between two batches."""
        planned, committed = self._newest("offsets"), self._newest("commits")
        return planned if planned > committed else None

    def committed_batches(self) -> int:
        """Return the number of committed batches."""
        return self._newest("commits") + 1

    def end_of(self, batch: int) -> str | None:
        """Return the entry ID at which a batch ends, None while its file is being written."""
        try:
            offset = json.loads((self.path / "offsets" / str(batch)).read_text().splitlines()[-1])
        except (OSError, ValueError, IndexError):
            return None
        return next((stream["id"] for stream in offset.values() if isinstance(stream, dict) and "id" in stream), None)

    def _newest(self, directory: str) -> int:
        try:
            names = [entry.name for entry in (self.path / directory).iterdir()]
        except OSError:
            return -1
        return max((int(name) for name in names if re.fullmatch(r"\d+", name)), default=-1)

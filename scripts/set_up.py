"""Creates .venv and installs the pinned versions into it."""

import fcntl
import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

VENV = Path(".venv")
PYTHON = VENV / "bin" / "python"
READY = VENV / ".ready"
CONSTRAINTS = Path("constraints.txt")
NO_PIP = (
    "set-up: this Python ({python}) can make no virtual environment. On Debian and Ubuntu its package python3-venv "
    "does that; without root, any other Python from 3.11 on will do: make PYTHON=/path/to/python3"
)


def main(wanted: str) -> int:
    """Make .venv match `wanted`, a text that is written to .venv/.ready when all is installed; return an exit code."""
    lock = os.open(".", os.O_RDONLY)  # two makes at once: the second waits here, then finds the work done
    fcntl.flock(lock, fcntl.LOCK_EX)
    if READY.is_file() and READY.read_text() == wanted + "\n" and works(PYTHON):
        return 0
    READY.unlink(missing_ok=True)
    print("set-up: installing into .venv (the first time about 1 GB, mostly Spark; some minutes)", flush=True)
    if not works(PYTHON) and not create(VENV):
        print(NO_PIP.format(python=sys.executable), file=sys.stderr)
        return 1
    # The build tools first, and then no build isolation: so they are pinned too.
    install(PYTHON, CONSTRAINTS, "setuptools", "wheel")
    install(PYTHON, CONSTRAINTS, "--no-build-isolation", "-e", ".[demo,lua,test]")
    READY.write_text(wanted + "\n")
    print("set-up: done", flush=True)
    return 0


def works(python: Path) -> bool:
    """Return whether this interpreter starts and has pip (it does not when the Python below it was removed)."""
    command = [str(python), "-c", "import pip"]
    return python.exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0


def create(place: Path) -> bool:
    """Create a virtual environment with pip in it; without ensurepip (Debian splits it off) the pip beside this Python
    is used."""
    python = place / "bin" / "python"
    if importlib.util.find_spec("ensurepip") is not None:
        venv.create(place, clear=place.exists(), symlinks=True, with_pip=True)
        return works(python)
    if importlib.util.find_spec("pip") is None:
        return False
    venv.create(place, clear=place.exists(), symlinks=True, with_pip=False)
    subprocess.run([sys.executable, "-m", "pip", "-q", "--python", str(python), "install", "pip"], check=False)
    return works(python)


def install(python: Path, constraints: Path, *what: str) -> None:
    """Install with the constraints; pip reports its own errors.

    Raises: SystemExit, when pip fails.
    """
    quiet = () if sys.stdout.isatty() else ("-q",)
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", *quiet]
    # setuptools warns of editable installs in general; pip's own messages stay.
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    if subprocess.run([*pip, "-c", str(constraints), *what], env=environment, check=False).returncode != 0:
        raise SystemExit(f"set-up: pip could not install {what[-1]}; its message stands above")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

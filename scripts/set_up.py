"""Creates .venv and installs the pinned versions into it: the server alone, or all, Spark included."""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from python_build import is_optimised

VENV = Path(".venv")
PYTHON = VENV / "bin" / "python"
READY = VENV / ".ready"
CONSTRAINTS = Path("constraints.txt")
# Extras, and what is said before they are installed.
LEVELS = {
    "server": ("cli,lua,metrics,mqtt,ui", "the first time about 100 MB, without Spark"),
    "all": ("demo,lua,test", "the first time about 1 GB, mostly Spark; some minutes"),
}
# The name of the package until it had one of its own. Both would own the same files.
EARLIER_NAME = "streamd"
PYTHON_BUILD = Path(__file__).with_name("python_build.py")
SLOWER = (
    "set-up: .venv keeps its Python, which is built without profile-guided optimisation; {python} is built with it and "
    "takes 0.8 to 0.9 of the CPU: remove .venv and run make again to take that one"
)
NO_PIP = (
    "set-up: this Python ({python}) can make no virtual environment. On Debian and Ubuntu its package python3-venv "
    "does that; without root, any other Python from 3.11 on will do: make PYTHON=/path/to/python3"
)


def main(wanted: str, level: str) -> int:
    """Make .venv match `wanted`, a text that .venv/.ready gets when all of `level` is there; return an exit code."""
    extras, size = LEVELS[level]
    lock = os.open(".", os.O_RDONLY)  # two makes at once: the second waits here, then finds the work done
    fcntl.flock(lock, fcntl.LOCK_EX)
    if READY.is_file() and READY.read_text() in (f"{wanted} {level}\n", f"{wanted} all\n") and works(PYTHON):
        return 0
    READY.unlink(missing_ok=True)
    print(f"set-up: installing into .venv ({size})", flush=True)
    if works(PYTHON):
        if is_optimised() and not asked_of(PYTHON):
            print(SLOWER.format(python=sys.executable))
    elif not create(VENV):
        print(NO_PIP.format(python=sys.executable), file=sys.stderr)
        return 1
    # The build tools first, and then no build isolation: so they are pinned too.
    install(PYTHON, CONSTRAINTS, "setuptools", "wheel")
    remove_earlier_name(PYTHON)
    install(PYTHON, CONSTRAINTS, "--no-build-isolation", "-e", f".[{extras}]")
    READY.write_text(f"{wanted} {level}\n")
    print("set-up: done", flush=True)
    return 0


def remove_earlier_name(python: Path, pip: Sequence[str] = ()) -> None:
    """Uninstall the package under the name that it had before, if it is there: pip would keep both.

    What an editable install of it has left in this directory goes, too: with it pytest would find the plugin twice.
    pip: the words that start it, by default that of this interpreter.
    """
    if any(python.parent.parent.glob(f"lib/python*/site-packages/{EARLIER_NAME}-*.dist-info")):
        words = [*(pip or (str(python), "-m", "pip")), "uninstall", "-q", "-y", "--disable-pip-version-check"]
        subprocess.run([*words, EARLIER_NAME], check=True)
    shutil.rmtree(f"{EARLIER_NAME}.egg-info", ignore_errors=True)


def asked_of(python: Path) -> bool:
    """Return whether another Python says that it was built with profile-guided optimisation."""
    return subprocess.run([str(python), str(PYTHON_BUILD)], check=False).returncode == 0


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
    sys.exit(main(*sys.argv[1:]))

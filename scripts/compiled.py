"""`make compiled`: builds streamd's compiled form, and installs it into .venv-compiled.

python scripts/compiled.py [test [pytest's words]]: with `test` it then runs the tests that go over the wire on it.
python scripts/compiled.py fuzz [words of tests.fuzz]: looks on it for inputs that break a promise.
python scripts/compiled.py --report: writes build/report.html instead, the source with what mypyc does in a general way.
"""

import hashlib
import importlib.util
import os
import runpy
import subprocess
import sys
import venv
from pathlib import Path

import set_up

VENV = Path(".venv-compiled")
PYTHON = VENV / "bin" / "python"
READY = VENV / ".ready"
BUILD = Path("build")
WHEELS = BUILD / "compiled"
REPORT = BUILD / "report.html"
# The directory of the tests is this one, but for `streamd`: that would be found before the one that is installed.
TREE = VENV / "tree"
BESIDE = ("tests", "bench", "demo", "scripts", "examples", "docs", "README.md", "Makefile", "pyproject.toml")
# On two workers, see tests/workers.py.
OVER_THE_WIRE = [
    "-n", "2", "tests/protocol", "tests/integration", "tests/differential", "tests/crash", "tests/faults",
    "tests/unit/data/test_trash_holders.py",  # references are counted, of which compiled code holds fewer
    "tests/mqtt/codec", "tests/mqtt/session", "tests/mqtt/store", "tests/mqtt/gateway", "tests/mqtt/conformance",
]  # fmt: skip


def main(words: list[str]) -> int:
    """Return 0, or the exit code of the tests."""
    if words[:1] == ["--report"]:
        BUILD.mkdir(exist_ok=True)
        runpy.run_path("setup.py")["extensions"](str(REPORT))
        return 0
    wanted = digest()
    if not (READY.is_file() and READY.read_text() == wanted):
        if importlib.util.find_spec("mypyc") is None:  # a .venv for the server alone
            set_up.install(set_up.PYTHON, set_up.CONSTRAINTS, "mypy[mypyc]")
            importlib.invalidate_caches()
        reason = why_not()
        if reason:
            print(f"compiled: {reason}", file=sys.stderr)
            return 1
        READY.unlink(missing_ok=True)
        install(build())
        READY.write_text(wanted)
    if words[:1] not in (["test"], ["fuzz"]):
        print(f"compiled: {VENV}/bin/streamd")
        return 0
    python = [str(PYTHON.absolute()), "-m"]
    if words[0] == "test":
        pytest = ["pytest", "--rootdir", ".", "-c", "pyproject.toml", "-m", "not interpreted and not long and not rare"]
        program = [*python, *pytest, *(words[1:] or OVER_THE_WIRE)]
    else:
        program = [*python, "tests.fuzz", *words[1:]]
    environment = {**os.environ, "PYTHONSAFEPATH": "1", "STREAMD_TEST_FORM": "compiled"}
    return subprocess.run(program, cwd=TREE, env=environment, check=False).returncode


def not_ready() -> str:
    """Return why the compiled form cannot run now, and what to do about it; empty if it can."""
    if not READY.is_file():
        return "the compiled one, which is faster, was not built: make compiled"
    return "" if READY.read_text() == digest() else "the compiled one is older than the sources: make compiled"


def why_not() -> str:
    """Return why the compiled form cannot be built here, and what to do about it; empty if it can."""
    reason: str = runpy.run_path("setup.py")["why_not"]()
    return reason


def digest() -> str:
    """Return a hash of the sources, of this Python and of this place: equal for a build that is up to date."""
    files = [*sorted(Path("streamd").rglob("*.py")), Path("setup.py"), Path("pyproject.toml"), Path(__file__)]
    whole = hashlib.sha256(f"{sys.version} {Path.cwd()}".encode())
    for file in files:
        whole.update(f"{file}\n".encode() + file.read_bytes())
    return whole.hexdigest()


def build() -> Path:
    """Build a wheel and return it; unchanged files are not compiled again.

    Raises: SystemExit, when pip fails, whose message precedes.
    """
    print("compiled: building (two minutes of two cores)", flush=True)
    for library in BUILD.glob("lib.*"):
        for file in [file for file in library.rglob("*") if file.is_file()]:
            if not (Path(file.relative_to(library)).with_name(f"{file.name.partition('.')[0]}.py")).is_file():
                file.unlink()  # of a module that is no more
    for old in WHEELS.glob("*.whl"):
        old.unlink()
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", str(WHEELS), "."]
    if subprocess.run(pip, env={**os.environ, "STREAMD_COMPILE": "1"}, check=False).returncode != 0:
        raise SystemExit(1)
    (wheel,) = WHEELS.glob("*.whl")
    return wheel


def install(wheel: Path) -> None:
    """Make the virtual environment: with the built streamd, and all else from .venv. Raises: SystemExit."""
    venv.create(VENV, clear=True, symlinks=True, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(PYTHON), "install", "-q"]
    pip += ["--ignore-installed", "--no-deps", "--no-index", str(wheel)]  # (PYTHONPATH may have another)
    if subprocess.run(pip, check=False).returncode != 0:
        raise SystemExit(1)
    TREE.mkdir()
    for name in BESIDE:
        (TREE / name).symlink_to(Path(name).absolute())
    (place,) = VENV.glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (place / "beside.pth").write_text("\n".join([str(TREE.absolute()), *libraries]) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

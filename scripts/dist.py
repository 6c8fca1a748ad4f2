"""`make dist`: builds wheel and sdist, and tries each in a fresh environment on every installed Python.

Where a C compiler is, also a wheel of the compiled form, for the Python of .venv: in dist/compiled, so that `pip
install dist/*.whl` names one.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

import compiled
import set_up

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-dist"
PYTHON = VENV / "bin" / "python"
DIST = ROOT / "dist"
VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14))
SAMPLE = ROOT / "tests" / "integration" / "typed_program.py"
WAIT_S = 30


def main() -> int:
    """Return 0 if all packages can be installed and serve."""
    os.chdir(ROOT)
    build()
    wheel, sdist = next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))
    look_into(wheel, sdist)
    pythons = list(pythons_here())
    with tempfile.TemporaryDirectory(prefix="streamd-dist-") as place:
        for version, python in pythons:
            try_it(version, python, wheel, Path(place) / version)
        version, python = pythons[0]
        try_it(version, python, sdist, Path(place) / "sdist")
        try_compiled(Path(place) / "compiled")
        check_types(Path(place) / version / "venv" / "bin" / "python", Path(place))
    missing = [f"{major}.{minor}" for major, minor in VERSIONS if f"{major}.{minor}" not in dict(pythons)]
    if missing:
        print(f"dist: not tried on Python {', '.join(missing)}: not on this machine")
    print(f"dist: {wheel.relative_to(ROOT)} and {sdist.relative_to(ROOT)} are ready")
    return 0


def build() -> None:
    """Build into dist/, from nothing, and have twine check the packages. Raises: SystemExit."""
    for old in ("build", "dist", "streamd.egg-info"):
        shutil.rmtree(ROOT / old, ignore_errors=True)
    if not set_up.works(PYTHON) and not set_up.create(VENV):
        raise SystemExit(set_up.NO_PIP.format(python=sys.executable))
    set_up.install(PYTHON, set_up.CONSTRAINTS, "build", "twine", "setuptools", "wheel")
    run("the build", PYTHON, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT)
    run("twine check", PYTHON, "-m", "twine", "check", "--strict", *DIST.iterdir())


def look_into(wheel: Path, sdist: Path) -> None:
    """Check the contents of the packages. Raises: SystemExit."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    for name in ("streamd/py.typed", "spark_source/py.typed", "pyspark_streamd/__init__.py"):
        if name not in inside:
            raise SystemExit(f"dist: {wheel.name} lacks {name}")
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "streamd").rglob("*.lua")}
    sources |= {str(path.relative_to(ROOT)) for path in (ROOT / "streamd").rglob("*.py")}
    if sources - inside:
        raise SystemExit(f"dist: {wheel.name} lacks {', '.join(sorted(sources - inside))}")
    others = {name.split("/")[0] for name in inside} - {"streamd", "spark_source", "pyspark_streamd"}
    if any(not name.endswith(".dist-info") for name in others):
        raise SystemExit(f"dist: {wheel.name} brings more than it should: {', '.join(sorted(others))}")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    if not {"LICENSE", "README.md", "pyproject.toml"} <= names:
        raise SystemExit(f"dist: {sdist.name} lacks its licence, README or pyproject.toml")


def pythons_here() -> Iterable[tuple[str, Path]]:
    """Return version and interpreter of each supported Python of this machine, the one of .venv among them."""
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for major, minor in VERSIONS:
        version = f"{major}.{minor}"
        found = [Path(sys.executable)] if version == own else []
        found += [Path(path) for path in [shutil.which(f"python{version}")] if path]
        found += sorted(installed.glob(f"{version}.*/bin/python{version}"))
        for python in found:
            if set_up.works(python) or is_python(python, version):
                yield version, python
                break


def is_python(python: Path, version: str) -> bool:
    """Return whether an interpreter starts, and has that version."""
    words = [python, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() == version


def try_it(version: str, python: Path, package: Path, place: Path) -> None:
    """Install a package into a fresh environment, and check that it serves. Raises: SystemExit."""
    print(f"dist: {package.name} on Python {version}", flush=True)
    place.mkdir()
    fresh = place / "venv"
    run("venv", python, "-m", "venv", "--without-pip", fresh)
    pip = [PYTHON, "-m", "pip", "--python", fresh / "bin" / "python", "install", "-q", "--disable-pip-version-check"]
    for extras in ("", "[client,metrics]"):
        run("pip install", *pip, "-c", set_up.CONSTRAINTS.resolve(), f"{package}{extras}")
        serve_once(fresh / "bin" / "streamd", place / f"with{extras}", has_extras=bool(extras))


def try_compiled(place: Path) -> None:
    """Build a wheel of the compiled form, and check that it serves; say so if it cannot be built.

    Raises: SystemExit.
    """
    reason = compiled.why_not()
    if reason:
        print(f"dist: no compiled wheel: {reason}")
        return
    (DIST / "compiled").mkdir()
    wheel = Path(shutil.copy(compiled.build(), DIST / "compiled"))
    try_it(f"{sys.version_info[0]}.{sys.version_info[1]}", Path(sys.executable), wheel, place)
    said = subprocess.run([place / "venv" / "bin" / "streamd", "--version"], capture_output=True, text=True, check=True)
    if not said.stdout.strip().endswith("compiled"):
        raise SystemExit(f"dist: what {wheel.name} installed is not compiled: {said.stdout}")


def serve_once(streamd: Path, place: Path, has_extras: bool) -> None:
    """Start the installed server, write and read, stop it; with the extras also ask for metrics, and for a backup.

    Raises: SystemExit.
    """
    place.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        admin = free.getsockname()[1]
    words = [streamd, "serve", "--port", "0", "--dir", place / "data"]
    if has_extras:
        words += ["--admin-port", str(admin)]
    server = subprocess.Popen([str(word) for word in words], cwd=place, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        ready = next((line for line in server.stdout if line.startswith("Ready")), "")
        port = int(ready.strip().rpartition(":")[2] or 0)
        request = b"XADD s IDMP p i * f v\r\n" * 2 + b"XLEN s\r\nQUIT\r\n"
        reply = ask(port, request)
        if b":1\r\n+OK" not in reply:
            raise SystemExit(f"dist: the installed server answered {reply!r}")
        if has_extras:
            metrics = ask(admin, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            if b"redis_up 1.0" not in metrics:
                raise SystemExit(f"dist: the installed server has the metrics {metrics[:300]!r}")
            run("streamd backup", streamd, "backup", "--url", f"redis://127.0.0.1:{port}", place / "copy")
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=WAIT_S)
    if server.returncode != 0:
        raise SystemExit(f"dist: the installed server ended with {server.returncode}")


def ask(port: int, request: bytes) -> bytes:
    """Return a server's answer until it closes the connection."""
    reply = b""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as client:
        client.sendall(request)
        while data := client.recv(65536):
            reply += data
    return reply


def check_types(python: Path, place: Path) -> None:
    """Run mypy on a user's program against the installed packages: it must find the planted mistakes.

    Raises: SystemExit.
    """
    program = place / "program.py"
    text = SAMPLE.read_text(encoding="utf-8")
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--no-error-summary", program]
    program.write_text(text, encoding="utf-8")
    run("mypy", *mypy, cwd=place)
    program.write_text(re.sub(r"(?m)^( *)# wrong: ", r"\1", text), encoding="utf-8")
    words = [str(word) for word in mypy]
    found = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False).stdout
    wrong, errors = text.count("# wrong: "), found.count(" error: ")
    if errors != wrong:
        raise SystemExit(f"dist: mypy found {errors} of {wrong} planted mistakes:\n{found}")


def run(what: str, *words: object, cwd: Path = ROOT) -> None:
    """Run a program to its end, and show its output if it fails. Raises: SystemExit."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"dist: {what} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())

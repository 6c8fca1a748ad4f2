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
        try_compiling_pip(Path(place) / "compiling")
        try_upgrade(wheel, Path(place) / "upgrade")
        check_types(Path(place) / version / "venv" / "bin" / "python", Path(place))
    missing = [f"{major}.{minor}" for major, minor in VERSIONS if f"{major}.{minor}" not in dict(pythons)]
    if missing:
        print(f"dist: not tried on Python {', '.join(missing)}: not on this machine")
    print(f"dist: {wheel.relative_to(ROOT)} and {sdist.relative_to(ROOT)} are ready")
    return 0


def build() -> None:
    """Build into dist/, from nothing, and have twine check the packages. Raises: SystemExit."""
    for old in (ROOT / "build", ROOT / "dist", *ROOT.glob("*.egg-info")):
        shutil.rmtree(old, ignore_errors=True)
    if not set_up.works(PYTHON) and not set_up.create(VENV):
        raise SystemExit(set_up.NO_PIP.format(python=sys.executable))
    set_up.install(PYTHON, set_up.CONSTRAINTS, "build", "twine", "setuptools", "wheel", "cibuildwheel")
    run("the build", PYTHON, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT)
    run("twine check", PYTHON, "-m", "twine", "check", "--strict", *DIST.iterdir())
    say_builds()


def say_builds() -> None:
    """Print which wheels of the compiled form a release builds, as pyproject.toml says. Raises: SystemExit."""
    for platform, archs in (("linux", "x86_64,aarch64"), ("macos", "x86_64,arm64")):
        words = ["--print-build-identifiers", "--platform", platform, "--archs", archs]
        found = run("cibuildwheel", PYTHON, "-m", "cibuildwheel", *words, ROOT).split()
        print(f"dist: a release builds for {platform}: {' '.join(found)}")
        missing = [name for major, minor in VERSIONS if not any((name := f"cp{major}{minor}-") in one for one in found)]
        if missing:
            raise SystemExit(f"dist: cibuildwheel builds nothing for {', '.join(missing)}")


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


def fresh_environment(python: Path, place: Path) -> tuple[Path, list[object]]:
    """Make a directory with an environment of its own; return that, and the words that install into it."""
    place.mkdir()
    fresh = place / "venv"
    run("venv", python, "-m", "venv", "--without-pip", fresh)
    pip = [PYTHON, "-m", "pip", "--python", fresh / "bin" / "python", "install", "-q", "--disable-pip-version-check"]
    return fresh, [*pip, "-c", set_up.CONSTRAINTS.resolve()]


def try_it(version: str, python: Path, package: Path, place: Path, environment: dict[str, str] | None = None) -> None:
    """Install a package into a fresh environment, and check that it serves. Raises: SystemExit."""
    print(f"dist: {package.name} on Python {version}", flush=True)
    fresh, pip = fresh_environment(python, place)
    for extras in ("", "[client,metrics]"):
        run("pip install", *pip, f"{package}{extras}", environment=environment)
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
    no_compiler = {**os.environ, "PATH": str(PYTHON.parent), "CC": "no-compiler"}
    try_it(f"{sys.version_info[0]}.{sys.version_info[1]}", Path(sys.executable), wheel, place, no_compiler)
    must_be_compiled(place)


def must_be_compiled(place: Path) -> None:
    """Check the form of what is installed there. Raises: SystemExit."""
    said = run("streamd --version", place / "venv" / "bin" / "streamd", "--version")
    if not said.strip().endswith("compiled"):
        raise SystemExit(f"dist: what is installed in {place} is not compiled: {said}")


def try_compiling_pip(place: Path) -> None:
    """Have pip compile the sdist by itself, in a fresh environment. Raises: SystemExit."""
    if compiled.why_not():
        return
    print("dist: STREAMD_COMPILE=1 pip install (two minutes of two cores)", flush=True)
    _, pip = fresh_environment(Path(sys.executable), place)
    (sdist,) = DIST.glob("*.tar.gz")
    run("pip install", *pip, sdist, environment={**os.environ, "STREAMD_COMPILE": "1"})
    must_be_compiled(place)


def try_upgrade(wheel: Path, place: Path) -> None:
    """Put the wheel in the place of one that has the earlier name. Raises: SystemExit."""
    fresh, pip = fresh_environment(Path(sys.executable), place)
    python = fresh / "bin" / "python"
    with zipfile.ZipFile(wheel) as archive:
        earlier = earlier_wheel(archive, place)
    run("pip install", *pip, "--no-deps", earlier)
    set_up.remove_earlier_name(python, [str(PYTHON), "-m", "pip", "--python", str(python)])
    run("pip install", *pip, wheel)
    names = "from importlib.metadata import distributions, entry_points\n"
    names += "print(sorted(one.name for one in distributions() if 'streamd' in one.name))\n"
    names += "print([one.value for one in entry_points(group='pytest11')])"
    said = run("the names", python, "-c", names, cwd=place)
    if said != "['streamd-server']\n['streamd.pytest_plugin']\n":
        raise SystemExit(f"dist: behind an upgrade there are {said}")
    serve_once(fresh / "bin" / "streamd", place / "upgraded", has_extras=False)


def earlier_wheel(archive: zipfile.ZipFile, place: Path) -> Path:
    """Write a wheel with the same files and the earlier name."""
    earlier = place / f"{set_up.EARLIER_NAME}-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(earlier, "w") as target:
        for name in archive.namelist():
            changed = name.replace("streamd_server-", f"{set_up.EARLIER_NAME}-")
            data = archive.read(name)
            if name.endswith("/METADATA"):
                data = data.replace(b"Name: streamd-server", f"Name: {set_up.EARLIER_NAME}".encode())
            if name.endswith("/RECORD"):
                data = re.sub(rb"(?m)^(.*?),.*$", rb"\1,,", data.replace(b"streamd_server-", b"streamd-"))
            target.writestr(changed, data)
    return earlier


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


def run(what: str, *words: object, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """Run a program to its end and return its output, which is shown if it fails. Raises: SystemExit."""
    named = [str(word) for word in words]
    done = subprocess.run(named, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"dist: {what} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

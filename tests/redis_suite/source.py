"""Where the source of Redis's tests comes from: Debian's source package, fetched by apt into a build directory."""

import shutil
import tarfile
from pathlib import Path
from typing import Final

from scripts.private_apt import NoPackage, fetch, places
from tests.unpacked import unpack

BUILD: Final = Path("build") / "redis-tests"
# The version that streamd is compared with, and that Debian 12 has.
VERSION: Final = "7.0.15"
ARCHIVE: Final = BUILD / f"redis_{VERSION}.orig.tar.gz"
TREE: Final = BUILD / f"redis-{VERSION}"


class NoSource(Exception):
    """The source cannot be had here; the message says why."""


def source_tree() -> Path:
    """Return the unpacked source, fetched the first time. Raises: NoSource."""
    if not TREE.is_dir():
        if not ARCHIVE.is_file():
            _fetch()
        unpacking = BUILD / "unpacking"
        shutil.rmtree(unpacking, ignore_errors=True)
        with tarfile.open(ARCHIVE) as archive:
            unpack(archive, unpacking)
        next(unpacking.iterdir()).rename(TREE)
        unpacking.rmdir()
    return TREE


def _fetch() -> None:
    """Have apt fetch the source package into BUILD. Raises: NoSource."""
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        lines = [f"deb-src {place.options}{place.address} {place.suite} main" for place in places()]
        fetch(BUILD, lines, "source", "--download-only", "redis")
    except NoPackage as error:
        raise NoSource(f"{error}; put redis_{VERSION}.orig.tar.gz of Debian's source package into {BUILD}") from error
    if not ARCHIVE.is_file():
        raise NoSource(f"the source package here is not of Redis {VERSION}")

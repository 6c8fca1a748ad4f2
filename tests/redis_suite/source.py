"""Where the source of Redis's tests comes from: Debian's source package, fetched by apt into a build directory."""

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

BUILD: Final = Path("build") / "redis-tests"
# The version that streamd is compared with, and that Debian 12 has.
VERSION: Final = "7.0.15"
ARCHIVE: Final = BUILD / f"redis_{VERSION}.orig.tar.gz"
TREE: Final = BUILD / f"redis-{VERSION}"

_SOURCES: Final = Path("/etc/apt")


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
            archive.extractall(unpacking, filter="data")
        next(unpacking.iterdir()).rename(TREE)
        unpacking.rmdir()
    return TREE


def _fetch() -> None:
    """Have apt fetch the source package into BUILD, by lists of its own: the machine's stay as they are."""
    if shutil.which("apt-get") is None:
        raise NoSource(f"there is no apt-get; put redis_{VERSION}.orig.tar.gz of Debian's source package into {BUILD}")
    apt = BUILD.absolute() / "apt"
    for directory in (apt / "lists" / "partial", apt / "cache" / "archives" / "partial"):
        directory.mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text("\n".join(_source_lines()) + "\n")
    options = [
        f"Dir::Etc::SourceList={apt}/sources.list",
        "Dir::Etc::SourceParts=-",
        f"Dir::State::Lists={apt}/lists",
        f"Dir::Cache={apt}/cache",
        "APT::Sandbox::User=",
    ]
    command = ["apt-get", "-q", *(word for option in options for word in ("-o", option))]
    for words in (["update"], ["source", "--download-only", "redis"]):
        done = subprocess.run([*command, *words], cwd=BUILD, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines()
            raise NoSource(f"apt-get {words[0]} failed: {lines[-1] if lines else done.returncode}")
    if not ARCHIVE.is_file():
        raise NoSource(f"the source package here is not of Redis {VERSION}")


def _source_lines() -> list[str]:
    """Return, as `deb-src` lines, where this machine gets the packages of its own release. Raises: NoSource."""
    release = re.search(r"(?m)^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())
    if release is None:
        raise NoSource("the release of this system has no name")
    found = []
    texts = [_SOURCES / "sources.list", *sorted((_SOURCES / "sources.list.d").glob("*"))]
    for path in texts:
        text = path.read_text() if path.is_file() and os.access(path, os.R_OK) else ""
        if path.suffix == ".sources":
            for stanza in re.split(r"\n\s*\n", text):
                fields = dict(re.findall(r"(?m)^(\S+):[ \t]*(.*)$", stanza))
                found += [
                    (f"[signed-by={fields['Signed-By']}] " if "Signed-By" in fields else "", uri, suite)
                    for uri in fields.get("URIs", "").split()
                    for suite in fields.get("Suites", "").split()
                ]
        else:
            found += re.findall(r"(?m)^deb\s+(\[[^]]*\]\s+)?(\S+)\s+(\S+)", text)
    lines = [
        f"deb-src {options}{uri} {suite} main" for options, uri, suite in found if suite.split("-")[0] == release[1]
    ]
    if not lines:
        raise NoSource("apt has no package source for this release")
    return lines

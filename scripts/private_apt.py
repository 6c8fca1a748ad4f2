"""Fetches packages with apt into a directory, with separate lists: nothing is installed, the machine's lists stay."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

_SOURCES: Final = Path("/etc/apt")


class NoPackage(Exception):
    """apt cannot fetch the package here; the message gives the reason."""


class Place(NamedTuple):
    """A source of packages: apt's options in brackets (may be empty), the address, and the release."""

    options: str
    address: str
    suite: str


def fetch(directory: Path, lines: list[str], *words: str) -> None:
    """Run apt-get with these words in a directory, with `lines` as its sources.list. Raises: NoPackage."""
    if shutil.which("apt-get") is None:
        raise NoPackage("there is no apt-get")
    apt = directory.absolute() / "apt"
    for made in (apt / "lists" / "partial", apt / "cache" / "archives" / "partial"):
        made.mkdir(parents=True, exist_ok=True)
    (apt / "sources.list").write_text("\n".join(lines) + "\n")
    options = [
        f"Dir::Etc::SourceList={apt}/sources.list",
        "Dir::Etc::SourceParts=-",
        f"Dir::State::Lists={apt}/lists",
        f"Dir::Cache={apt}/cache",
        "APT::Sandbox::User=",
    ]
    command = ["apt-get", "-q", *(word for option in options for word in ("-o", option))]
    for call in (("update",), words):
        done = subprocess.run([*command, *call], cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise NoPackage(f"apt-get {call[0]} failed: {said[-1] if said else done.returncode}")


def places() -> list[Place]:
    """Return the sources of this machine's own release, the main archive first. Raises: NoPackage."""
    release = re.search(r"(?m)^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text())
    if release is None:
        raise NoPackage("the release of this system has no name")
    found: list[Place] = []
    texts = [_SOURCES / "sources.list", *sorted((_SOURCES / "sources.list.d").glob("*"))]
    for path in texts:
        text = path.read_text() if path.is_file() and os.access(path, os.R_OK) else ""
        if path.suffix == ".sources":
            for stanza in re.split(r"\n\s*\n", text):
                fields = dict(re.findall(r"(?m)^(\S+):[ \t]*(.*)$", stanza))
                found += [
                    Place(f"[signed-by={fields['Signed-By']}] " if "Signed-By" in fields else "", uri, suite)
                    for uri in fields.get("URIs", "").split()
                    for suite in fields.get("Suites", "").split()
                ]
        else:
            found += [Place(*words) for words in re.findall(r"(?m)^deb\s+(\[[^]]*\]\s+)?(\S+)\s+(\S+)", text)]
    places = [place for place in found if place.suite.split("-")[0] == release[1]]
    if not places:
        raise NoPackage("apt has no package source for this release")
    return places

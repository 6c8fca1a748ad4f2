"""`make redis-tests`: runs the tests of redis-server 7.0.15 from outside against streamd, a server for each file.

The source is fetched into build/, never copied into the repository. What is not run stands in skipped.txt beside this
file, with the reason.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.integration.process import ServerProcess
from tests.redis_suite.source import NoSource, source_tree

UNITS: Final = (  # noqa: SIM905  (read as a text)
    "type/string type/incr type/list type/list-2 type/list-3 type/set type/hash type/zset type/stream "
    "type/stream-cgroups bitops bitfield sort scan expire multi scripting keyspace other pubsub protocol slowlog quit "
    "functions dump info-command limits pause introspection introspection-2 lazyfree tracking acl acl-v2"
).split()
SKIPPED: Final = Path(__file__).with_name("skipped.txt")
# The first part of the files for users works from outside as well: no server has to be started with a file of users.
_FROM_OUTSIDE: Final = (r'tags \{"acl external:skip"\}', 'tags {"acl"}')
# There are no channels of shards; what is asked of them holds for the others, too.
_NO_SHARDS: Final = (r"(?i)\bs(subscribe|unsubscribe|publish)\b", r"\1")
# How Redis 8 says what a user may not, and how it lists one.
_TEXTS_OF_8: Final = (
    (r"NOPERM\*(key|channel)s\*", r"NOPERM*\1*"),
    (r'assert_equal "This user', 'assert_match "User *'),
)
# Redis 8 calls small lists and sets listpacks, where 7.0 has one name for those of any size.
_NAMES_OF_8: Final = (
    r"\A",
    "proc assert_encoding {enc key} {\n"
    "    array set names {quicklist {quicklist listpack} hashtable {hashtable listpack}}\n"
    "    set taken [expr {[info exists names($enc)] ? $names($enc) : $enc}]\n"
    "    assert {[r object encoding $key] in $taken}\n"
    "}\n",
)
_LISTED_IN_8: Final = (r"on nopass resetchannels &foo", "on nopass sanitize-payload resetchannels &foo")
# What is changed in the fetched files before they run, regular expressions and what comes in their places: what a name
# in the list of skipped tests cannot say.
CHANGES: Final = {
    **{unit: [_NAMES_OF_8] for unit in ("type/list", "type/set", "sort", "scan", "keyspace")},
    # Single lines that ask for commands that are not there; the tests after them need what else stands beside.
    "acl": [
        _FROM_OUTSIDE,
        _NO_SHARDS,
        *_TEXTS_OF_8,
        _LISTED_IN_8,
        (r"(?m)^ +r DEBUG OBJECT .*\n", ""),
    ],
    "acl-v2": [_FROM_OUTSIDE, _NO_SHARDS, *_TEXTS_OF_8, (r"(?m)^ +assert.* (GEORADIUS|PFCOUNT) .*\n", "")],
}
# Files with tests of roles and of writes that need replicas, for which a server has a journal.
JOURNALED: Final = frozenset({"multi", "scripting"})
UNIT_S_MAX: Final = 540
_LINE: Final = re.compile(r"^\[(ok|err|skip|ignore|exception)\]: (.*?)(?: \(\d+ ms\))?$")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Outcome:
    """What became of the tests of one file."""

    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Skips:
    """The list of what is not run: names of tests by file, and denied tags."""

    tests: dict[str, list[str]]
    tags: list[str]


def read_skips(text: str) -> Skips:
    """Return what skipped.txt says: `file | test` and `tag | name` lines, under `#` lines that give the reason."""
    tests: dict[str, list[str]] = {}
    tags: list[str] = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            where, _, name = line.partition(" | ")
            if where == "tag":
                tags.append(name)
            else:
                tests.setdefault(where, []).append(name)
    return Skips(tests, tags)


@contextmanager
def changed(tree: Path, unit: str) -> Iterator[None]:
    """Have the fetched file of a unit as it is run, and after that as it came."""
    path = tree / "tests" / "unit" / f"{unit}.tcl"
    before = path.read_bytes()
    text = before
    for old, new in CHANGES.get(unit, ()):
        text, count = re.subn(old.encode(), new.encode(), text)
        assert count, f"{path} has nothing like {old!r}"
    path.write_bytes(text)
    try:
        yield
    finally:
        path.write_bytes(before)


def run_unit(tree: Path, unit: str, skips: Skips, only: list[str], log: Path) -> Outcome:
    """Run one file against a server of its own; its output goes to `log`."""
    options = ["--appendonly", "yes"] if unit in JOURNALED else []
    with tempfile.TemporaryDirectory() as directory, ServerProcess(Path(directory), *options) as server:
        skip_file = log.with_suffix(".skip")
        skip_file.write_text("\n".join(skips.tests.get(unit, [])))
        words = ["tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1", "--port", str(server.port), "--durable"]
        # The ports at which the parts of the suite talk to each other; another run may be under way.
        words += ["--baseport", str(20_000 + server.port % 10_000)]
        words += ["--ignore-digest", "--clients", "1", "--single", f"unit/{unit}"]
        words += ["--skipfile", str(skip_file.absolute())]
        if skips.tags:
            words += ["--tags", " ".join(f"-{tag}" for tag in skips.tags)]
        for name in only:
            words += ["--only", name]
        with log.open("wb") as output, changed(tree, unit):
            try:
                subprocess.run(
                    words, cwd=tree, stdout=output, stderr=subprocess.STDOUT, timeout=UNIT_S_MAX, check=False
                )
            except subprocess.TimeoutExpired:
                output.write(f"\n[exception]: not done after {UNIT_S_MAX} s\n".encode())
    outcome = read_outcome(log.read_text(errors="replace"))
    outcome.failed += [f"{name}: in skipped.txt, but there is no such test" for name in _unknown(outcome, skips, unit)]
    return outcome


def read_outcome(text: str) -> Outcome:
    """Return what the output of a run says."""
    outcome = Outcome()
    said = text.partition("Test Summary")[0].partition("The following tests failed")[0]
    for line in _COLOUR.sub("", said).splitlines():
        if found := _LINE.match(line):
            kind, name = found.groups()
            places = {"ok": outcome.passed, "skip": outcome.skipped, "ignore": outcome.ignored}
            places.get(kind, outcome.failed).append(name)
    if not outcome.passed and not outcome.skipped and not outcome.ignored and not outcome.failed:
        outcome.failed.append("no test ran")
    return outcome


def _unknown(outcome: Outcome, skips: Skips, unit: str) -> list[str]:
    """Return what the list names for this file though the file has no such test."""
    return [
        name
        for name in skips.tests.get(unit, [])
        if not any(re.search(name[1:], test) if name[0] == "/" else name == test for test in outcome.skipped)
    ]


def main() -> int:
    """Return 0 when nothing failed."""
    parser = argparse.ArgumentParser(prog="make redis-tests", description=__doc__)
    parser.add_argument("units", nargs="*", default=list(UNITS), help="files below tests/unit, without .tcl")
    parser.add_argument("--only", action="append", default=[], help="run only this test")
    options = parser.parse_args()
    for program in ("tclsh", "redis-cli"):
        if shutil.which(program) is None:
            print(f"redis-tests: skipped, there is no {program} here (packages tcl and redis-tools)")
            return 0
    try:
        tree = source_tree().absolute()
    except NoSource as reason:
        print(f"redis-tests: skipped, {reason}")
        return 0
    for program in ("redis-cli", "redis-benchmark"):
        link = tree / "src" / program
        if not link.exists() and (path := shutil.which(program)):
            link.symlink_to(path)
    (tree / "tests" / "tmp").mkdir(exist_ok=True)
    logs = tree.parent / "logs"
    logs.mkdir(exist_ok=True)
    skips = read_skips(SKIPPED.read_text())
    total = Outcome()
    for unit in options.units:
        started = time.monotonic()
        log = logs / f"{unit.replace('/', '-')}.txt"
        outcome = run_unit(tree, unit, skips, options.only, log)
        if options.only:
            outcome.failed = [name for name in outcome.failed if not name.endswith("no such test")]
        print(
            f"{unit}: {len(outcome.passed)} passed, {len(outcome.failed)} failed, "
            f"{len(outcome.skipped) + len(outcome.ignored)} skipped in {time.monotonic() - started:.0f} s",
            flush=True,
        )
        for name in outcome.failed:
            print(f"    {name}")
        for part in ("passed", "failed", "skipped", "ignored"):
            getattr(total, part).extend(getattr(outcome, part))
    if total.failed:
        print(f"what was said stands in {logs}")
    print(f"{len(total.passed)} passed, {len(total.failed)} failed, {len(total.skipped) + len(total.ignored)} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())

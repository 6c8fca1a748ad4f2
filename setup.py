"""Builds streamd: as it is written, or with STREAMD_COMPILE=1 in the environment its hot rooms compiled by mypyc.

Without mypyc or a C compiler it is built as it is written, and one line says so.
"""

import ast
import importlib.util
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from distutils.ccompiler import new_compiler
from distutils.errors import CompileError, DistutilsError
from distutils.sysconfig import customize_compiler, get_python_inc
from pathlib import Path
from typing import Any

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info

# What is compiled: these files of each room (all, where none is named). The server is one library.
SERVER: dict[str, tuple[str, ...]] = {
    "base": ("clock", "form", "glob"),
    "resp": (),
    "idmp": (),
    "stream": (),
    "stream/wire": (),
    "stream/log": (),
    "stream/groups": (),
    "stream/search": (),
    "data": (),
    "cold": (
        "block",
        "blocks",
        "cache",
        "cold_list",
        "index",
        "node_replies",
        "notes",
        "rows",
        "seen_nodes",
        "sieve",
        "store",
        "stretch",
        "tombstones",
    ),
    "rdb": (),
    "connected": (),
    "journal": ("duplicates", "journal", "native_units", "notes", "record", "writer"),
    "acl": ("beginnings",),
    "catalog": ("applying", "arguments", "context", "counted_keys", "declare", "guard", "script_host"),
    "commands/stream": (),
    "commands/keys": (),
    "commands/server": ("fcall", "running", "scripting", "transactions"),
    "lua": ("libraries", "programs", "tokens", "runtime", "scripts", "side_run"),
    "durability": ("barrier",),
    "engine": (),
    "net": ("connection",),
}
# The MQTT gateway is another one: it imports nothing of the server, and so a change of one leaves the other built.
GATEWAY: dict[str, tuple[str, ...]] = {
    "clients/mqtt/codec": ("decoder", "encoding", "fields", "names", "packets", "parsing", "properties"),
    "clients/mqtt/session": ("incoming", "outgoing", "packs", "subscription_tree"),
    "clients/mqtt/store": (
        "confirming",
        "link",
        "logs",
        "positions",
        "publishing",
        "releases",
        "ring",
        "stored",
        "tailing",
    ),
    "clients/mqtt/gateway": (
        "connection",
        "counters",
        "delivering",
        "gateway",
        "keep_alive",
        "latency",
        "noting",
        "receiving",
        "session",
    ),
}
ROOMS = SERVER | GATEWAY
# What mypyc cannot take: a class that derives from a set, or from a weak reference, or has type parameters; one whose
# objects change their class, or that is asked for its slots; a frozen dataclass that is pickled; a union of int and
# Fraction, at which it crashes. And what it makes slower: loops over integers of more than 64 bits. (Nor does it take
# asynchronous generators; and a Final that is a tuple of up to ten floats it takes for unset: give it a type.)
INTERPRETED = {
    "streamd/commands/keys/increx.py",
    "streamd/data/hash.py",
    "streamd/data/member_set.py",
    "streamd/data/timed_hash.py",
    "streamd/engine/survey.py",
    "streamd/stream/id_parts.py",
    "streamd/stream/groups/lent_chunks.py",
    "streamd/idmp/sweeper.py",
}

HIDDEN = ["-fvisibility=hidden", "-fno-semantic-interposition"]

MYPY = "mypy[mypyc]>=2.4,<3"
# What `stream/wire/native_entries.py` and `journal/native_units.py` write with. Without it, neither is used.
LIBRT = "librt>=0.16"
# Libraries with types of their own, which mypy has to find where pip builds in an environment of its own.
TYPED = ["xxhash>=3.4"]


def files_of(room: str) -> list[str]:
    """Return the files of a room that are compiled."""
    names = ROOMS[room] or sorted(file.stem for file in Path("streamd", room).glob("*.py") if file.stem != "__init__")
    files = [f"streamd/{room}/{name}.py" for name in names]
    return [file for file in files if file not in INTERPRETED]


def why_not() -> str:
    """Return why nothing can be compiled here, and what to do about it; empty if it can."""
    if importlib.util.find_spec("mypyc") is None:
        return f"mypyc is not installed (pip install '{MYPY}')"
    compiler = new_compiler()
    customize_compiler(compiler)
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "trial.c")
        source.write_text("#include <Python.h>\n")
        try:
            compiler.compile([str(source)], output_dir=directory, include_dirs=[get_python_inc()])
        except (CompileError, DistutilsError, OSError):
            return "no C compiler finds Python.h here (Debian and Ubuntu: packages gcc and python3-dev)"
    return ""


def extensions(report: str = "") -> list[Extension]:
    """Return what is to be compiled. report: a file for the server's source with what mypyc does in a general way."""
    made: list[Extension] = []
    for group, rooms in (("streamd", SERVER), ("streamd_mqtt", GATEWAY)):
        made += _library(group, [file for room in rooms for file in files_of(room)], report)
        report = ""
    return made


def _library(group: str, files: list[str], report: str) -> list[Extension]:
    """Return one library and the modules that it holds."""
    from mypyc.build import mypycify

    # A cache of its own, new each time: with some modules from a cache mypyc does not find what others refer to.
    with tempfile.TemporaryDirectory() as cache:
        # The gateway's libraries are not where only the server is built: whatever comes from them is an object anyway.
        flags = ["--no-warn-unused-ignores", "--ignore-missing-imports"]
        words = [*flags, "--cache-dir", cache, *(["-a", report] if report else []), *files]
        # One library for all that works together: mypyc then knows all classes, and calls their methods and functions
        # directly. -O3 takes longer to build and gains nothing; one C file for all takes more than ten minutes.
        how: dict[str, Any] = {"opt_level": "2", "debug_level": "0", "multi_file": True}
        made = mypycify(words, **how, group_name=group, target_dir=f"build/{group}")
    if sys.platform != "win32":
        for extension in made:
            # Nobody outside calls what is in there by its name: so calls inside need no detour.
            extension.extra_compile_args += HIDDEN
    return made


def summaries(files: list[str]) -> dict[str, str]:
    """Return `module.function` -> the first line of its docstring, which compiled code does not have."""
    found = {}
    for file in files:
        module = file.removesuffix(".py").replace("/", ".")
        for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                text = ast.get_docstring(node)
                if text:
                    found[f"{module}.{node.name}"] = text.partition("\n")[0]
    return found


class BuildWithSummaries(build_py):
    """Puts the summaries of compiled commands beside `streamd/base/form.py`, who reads them."""

    def run(self) -> None:
        super().run()
        files = [file for room in ROOMS for file in files_of(room)]
        place = Path(self.build_lib, "streamd", "base", "summaries.json")
        place.write_text(json.dumps(summaries(files), indent=0), encoding="utf-8")


class NeedWhatIsCompiledAgainst(egg_info):
    """Has the compiled form require librt, which the pure one never imports."""

    def finalize_options(self) -> None:
        super().finalize_options()
        needed = [*dict.fromkeys([*self.distribution.install_requires, LIBRT])]
        self.distribution.install_requires = needed
        self.distribution.metadata.install_requires = needed  # which had the same before


class BuildOnAllCores(build_ext):
    """Makes several libraries at a time (each module has a small one of its own), and several files of one."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self) -> None:
        compile_one = self.compiler.compile

        def compile_all(sources: list[str], **how: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_one([source], **how), sources)
                return [name for names in objects for name in names]

        self.compiler.compile = compile_all
        super().build_extensions()


def main() -> None:
    """Build, as setuptools' backend asks for."""
    wanted = os.environ.get("STREAMD_COMPILE", "0") not in ("", "0")
    made: list[Extension] = []
    commands: dict[str, type[Command]] = {}
    if wanted and "dist_info" in sys.argv and not why_not():
        commands = {"egg_info": NeedWhatIsCompiledAgainst}  # what is written here is the wheel's
    if wanted and not {"egg_info", "dist_info", "sdist"} & set(sys.argv):  # these only ask for names
        reason = why_not()
        if reason:
            print(f"streamd: built as pure Python, not compiled: {reason}", file=sys.stderr)
        else:
            made = extensions()
            commands = {
                "build_ext": BuildOnAllCores,
                "build_py": BuildWithSummaries,
                "egg_info": NeedWhatIsCompiledAgainst,
            }
    setup(
        ext_modules=made,
        cmdclass=commands,
        setup_requires=[MYPY, *TYPED] if wanted else [],
    )


if __name__ == "__main__":
    main()

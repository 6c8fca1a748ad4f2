"""The house rules that a machine can check."""

import ast
import re
import runpy
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from bench.slopes.rows import ROWS
from scripts import map as map_of_rooms
from scripts import ways
from streamd.distribution import NAME

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("streamd", "spark_source", "pyspark_streamd", "demo", "bench", "scripts", "tests", "examples")
LINES_MAX = 500
TEST_LINES_MAX = 600  # tables of cases are long and easy to read
NAMES_THAT_SAY_NOTHING = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py", "manager.py"}
MAY_SLEEP = (
    "tests/crash/",
    "tests/failover/",
    "tests/mqtt/gateway/test_mqtt_store_faults.py",
    "tests/replication/",
    "tests/spark/",
)
# A place on one machine, a note to oneself, a number of a list that a reader cannot see.
NOT_FOR_READERS = re.compile(r"(?<![\w.~])/(?:work|farm|root|home)/\w|\bTODO\b|\bFIXME\b|\bissue #?\d")
DOCUMENTS = ("*.md", "docs/**/*.md", "bench/NOTES.md", "examples/*.md")
# Clauses without a noun: who is it, what goes where? English has client, waiter, caller, request, reply.
HARD_TO_READ = re.compile(
    r"\b[Ww]hoever\b|\b[Ww]hat goes\b(?! wrong)|\b[Ww]hat others\b|\b[Tt]here (?:is|are|was|were) none\b(?! left)"
    r"|(?:^|[.;:] )Who (?![^.?]*\?)|\b(?:as|by|for|from|in|of|on|serves?|tells?|than|to|with) who\b|\bwho waits\b"
    r"|\b[Ww]hat there (?:is|was)\b",
    re.MULTILINE,
)
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
PROSE = (*DOCUMENTS, "Makefile", "constraints.txt", "pyproject.toml", ".ci/run", "scripts/*")


def modules() -> list[str]:
    """Return every Python file of the project, relative to its root."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return sorted(str(file.relative_to(ROOT)) for file in files)


def prose() -> list[str]:
    """Return every other file that a reader reads."""
    files = (file for pattern in PROSE for file in ROOT.glob(pattern) if file.is_file())
    return sorted(str(file.relative_to(ROOT)) for file in files)


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def fault_in_docstring(source: str) -> str | None:
    """Return what is wrong with a module's docstring: its first paragraph is to be one sentence."""
    docstring = ast.get_docstring(ast.parse(source))
    if not docstring:
        return "has no docstring"
    first = " ".join(docstring.split("\n\n")[0].split())
    if not first.endswith((".", "?", ":")):
        return "does not end its first sentence"
    if re.search(r"[.?!] +[A-Z]", first):
        return "says more than one sentence"
    return None


def calls_of_sleep(source: str) -> list[int]:
    """Return the lines that call something named sleep; `asyncio.sleep(0)` only lets others run."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        yields = bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
        if name == "sleep" and not yields:
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("name", modules())
def test_a_module_says_in_one_sentence_what_it_is_responsible_for(name):
    source = text_of(name)
    if name.endswith("__init__.py") and not source.strip():
        return
    assert fault_in_docstring(source) is None


def test_no_file_is_longer_than_a_reader_keeps_in_mind():
    lengths = {name: text_of(name).count("\n") for name in modules()}
    most = {name: TEST_LINES_MAX if name.startswith("tests/") else LINES_MAX for name in lengths}
    assert {name: lines for name, lines in lengths.items() if lines > most[name]} == {}


def test_no_file_has_a_name_that_says_nothing():
    assert [name for name in modules() if Path(name).name in NAMES_THAT_SAY_NOTHING] == []


def test_no_two_files_of_tests_have_the_same_name():
    """pytest takes a file's name for its module's: of two with one name it runs neither, and ends."""
    names = Counter(Path(name).name for name in modules() if Path(name).name.startswith("test_"))
    assert {name for name, count in names.items() if count > 1} == set()


def test_no_test_sleeps_but_those_that_kill_processes():
    tests = (name for name in modules() if name.startswith("tests/") and not name.startswith(MAY_SLEEP))
    assert {name: lines for name in tests if (lines := calls_of_sleep(text_of(name)))} == {}


def calls_of_log(source: str) -> list[str]:
    """Return the first argument of each call of the log, in the words of the source."""
    return [
        ast.unparse(node.args[0])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "log"
        and node.args
    ]


def test_every_line_of_the_servers_log_has_a_name():
    server = [
        name
        for name in modules()
        if name.startswith("streamd/") and not name.startswith(("streamd/clients/topics/", "streamd/clients/sessions/"))
    ]
    assert [name for name in server if "getLogger" in text_of(name)] == ["streamd/base/log.py"]
    names = [name for path in server if "base.log import" in text_of(path) for name in calls_of_log(text_of(path))]
    assert len(names) > 10
    assert [name for name in names if not re.fullmatch(r"'[a-z]+(-[a-z]+)*'", name)] == []


def test_the_server_asks_no_error_for_its_cause_which_compiled_code_does_not_keep():
    assert [name for name in modules() if name.startswith("streamd/") and "__cause__" in text_of(name)] == []


def test_nothing_is_said_that_only_its_writer_understands():
    names = [name for name in modules() + prose() if Path(name).name != Path(__file__).name]
    found = {name: [match[0] for match in NOT_FOR_READERS.finditer(text_of(name))] for name in names}
    assert {name: words for name, words in found.items() if words} == {}


def docstrings(source: str) -> list[str]:
    """Return the docstrings of a module and of all in it."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    return [text for node in nodes if (text := ast.get_docstring(node))]


def hard_words(text: str) -> list[str]:
    """Return the phrases of a text that a reader has to read twice."""
    paragraphs = (" ".join(one.split()) for one in CODE.sub("``", text).split("\n\n"))
    return [match[0].strip() for one in paragraphs for match in HARD_TO_READ.finditer(one)]


def test_documents_and_docstrings_name_their_subjects():
    read = {name: text_of(name) for name in prose() if name.endswith(".md") and name != "CHANGELOG.md"}
    files = [name for name in modules() if not name.startswith("tests/")]
    read |= {name: "\n\n".join(docstrings(text_of(name))) for name in files}
    found = {name: hard_words(text) for name, text in read.items()}
    assert {name: words for name, words in found.items() if words} == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Told to\nwhoever asks. Who waits, gets it.", ["whoever", ". Who"]),
        ("None if there is none. Kept for who comes.", ["there is none", "for who"]),
        ("What goes wrong? Who knows? `whoever` waits for those who ask.", []),
    ],
)
def test_the_check_of_words_finds_clauses_without_a_noun(text, words):
    assert hard_words(text) == words


def test_every_dependency_is_pinned():
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    pinned = {normal(line.split("==")[0]) for line in text_of("constraints.txt").splitlines() if "==" in line}
    names = {normal(re.split(r"[^\w.-]", one, maxsplit=1)[0]) for one in wanted}
    assert names - pinned == {NAME}


def normal(name: str) -> str:
    return name.strip().lower().replace("_", "-")


def test_what_the_readme_says_to_make_can_be_made():
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    said = set(re.findall(r"`?make ([a-z-]+)", "\n".join(re.findall(r"```.*?```|`[^`]+`", text_of("README.md"), re.S))))
    assert said <= targets
    assert {"demo", "test", "serve"} <= said


def test_make_help_names_each_target_once():
    named = re.findall(r'^\t@echo "make ([a-z0-9-]+) ', text_of("Makefile"), re.MULTILINE)
    assert len(named) > 20
    assert [name for name in named if named.count(name) > 1] == []


def test_no_point_of_the_changelog_stands_there_twice():
    points = re.findall(r"^\* (.{40,60})", text_of("CHANGELOG.md"), re.MULTILINE)
    assert len(points) > 20
    assert sorted({point for point in points if points.count(point) > 1}) == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("x = 1", "has no docstring"),
        ('"""Does this"""', "does not end its first sentence"),
        ('"""Does this. And that."""', "says more than one sentence"),
        ('"""Does this, in 1.5 ms.\n\nMore. And more."""', None),
    ],
)
def test_the_check_of_docstrings_finds_faults(source, fault):
    assert fault_in_docstring(source) == fault


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("import time\ntime.sleep(1)", [2]),
        ("from time import sleep\nsleep(0.1)", [2]),
        ("await asyncio.sleep(0)", []),
        ("client.execute_command('DEBUG', 'SLEEP', 0)", []),
    ],
)
def test_the_check_of_sleeps_finds_sleeps(source, lines):
    assert calls_of_sleep(source) == lines


def test_the_files_that_the_documents_name_exist():
    named = {
        path
        for document in prose()
        if document.endswith(".md") and document != "CHANGELOG.md"
        for path in re.findall(
            r"`((?:streamd|spark_source|pyspark_streamd|demo|bench|tests|examples|scripts)/[\w/.]*)`", text_of(document)
        )
    }
    assert len(named) > 20
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_files_of_the_rooms_that_the_architecture_names_exist():
    named = set(re.findall(r"`(\w+/[\w/]+\.py)`", text_of("ARCHITECTURE.md")))
    assert len(named) > 20
    assert [path for path in sorted(named) if not any((ROOT / top / path).exists() for top in ("", "streamd"))] == []


def test_where_a_command_is_documented_follows_from_its_name_alone():
    import streamd.commands  # noqa: F401  (declares the commands)
    from streamd.catalog import COMMANDS

    assert COMMANDS[b"xadd"].source == "https://redis.io/docs/latest/commands/xadd/"
    group_create = COMMANDS.find(b"xgroup|create")
    assert group_create is not None
    assert group_create.source == "https://redis.io/docs/latest/commands/xgroup-create/"
    handlers = [name for name in modules() if name.startswith("streamd/commands/")]
    assert [name for name in handlers if "Source: https://redis.io/docs/latest/commands/" in text_of(name)] == []


def test_the_map_of_the_rooms_is_drawn_and_no_file_imports_itself_by_way_of_others(capsys):
    map_of_rooms.main()
    assert "engine" in capsys.readouterr().out
    files = {
        ROOT / name: name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for name in modules()
        if name.startswith("streamd/")
    }
    below = {module: map_of_rooms.modules_imported(path) - {module} for path, module in files.items()}
    map_of_rooms.floors({module: others & below.keys() for module, others in below.items()})  # raises for a circle


PRODUCT = ("streamd/", "spark_source/", "pyspark_streamd/", "demo/", "bench/", "scripts/")
# What calls a name, too: `make`, packaging, the templates of pages, examples.
OTHER_CALLERS = (
    "Makefile",
    "pyproject.toml",
    "setup.py",
    "mkdocs.yml",
    "scripts/*.sh",
    "streamd/**/*.html",
    "examples/*",
)
# Names that frameworks call (Spark's data sources and listeners, MkDocs, rich), and public ones, for programs of users.
CALLED_FROM_OUTSIDE = {
    "get_protocol",  # asyncio asks a transport for it
    "StreamdListener", "getDefaultReadLimit", "initialOffset", "onQueryIdle", "onQueryProgress", "onQueryStarted",
    "onQueryTerminated", "on_broken_pipe", "on_files", "on_page_markdown", "on_post_build",
    "prepareForTriggerAvailableNow", "pushFilters", "reportLatestOffset", "streamReader", "streamWriter",
}  # fmt: skip
WORD = re.compile(r"[A-Za-z_]\w*")


def names_made(tree: ast.Module) -> list[str]:
    """Return the functions, methods, classes and constants of a module, but for those that a decorator takes."""
    made = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and all(ast.unparse(one) in ("property", "staticmethod", "classmethod") for one in node.decorator_list)
    ]
    targets = [node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None) for node in tree.body]
    made += [one.id for one in targets if isinstance(one, ast.Name)]
    return [name for name in made if not name.startswith("__")]


def names_used(tree: ast.Module) -> list[str]:
    """Return the names that a module's code asks for; words of its texts count, for a name may be asked for by one."""
    blocks = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value) for node in ast.walk(tree) if isinstance(node, blocks) and ast.get_docstring(node)
    }  # type: ignore[attr-defined]
    used = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.append(node.id)
        elif isinstance(node, ast.Attribute):
            used.append(node.attr)
        elif isinstance(node, ast.alias):
            used.append(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            used += WORD.findall(node.value)
    return used


def test_nothing_is_made_that_nobody_but_a_test_asks_for():
    trees = {name: ast.parse(text_of(name)) for name in modules() if name.startswith(PRODUCT)}
    used = {name for tree in trees.values() for name in names_used(tree)} | CALLED_FROM_OUTSIDE
    for pattern in OTHER_CALLERS:
        used.update(word for file in ROOT.glob(pattern) for word in WORD.findall(file.read_text(encoding="utf-8")))
    left = {path: set(names_made(tree)) - used for path, tree in trees.items()}
    assert {path: names for path, names in left.items() if names} == {}


def test_a_function_that_nobody_asks_for_is_found():
    tree = ast.parse("A = 1\ndef b(): 'says c'\n@d\ndef e(): pass\nclass F:\n    def g(self): return self.h, 'i j'\n")
    assert names_made(tree) == ["b", "F", "g", "A"]
    assert names_used(tree) == ["d", "h", "i", "j", "self"]


@pytest.mark.parametrize("way", ways.WAYS, ids=lambda way: way.name)
def test_there_is_no_further_way_to_do_what_is_done_in_several_already(way):
    """A way that is removed leaves the list, too: it is what `scripts/ways.py` prints."""
    assert set(way.functions) == ways.found_by_pattern(way)
    assert list(way.functions) == sorted(way.functions)


def test_scripts_import_nothing_of_bench():
    """So the two do not import each other: bench draws and finds a Redis by what scripts have."""
    assert [
        name for name in modules() if name.startswith("scripts/") and re.search(r"(from|import) bench", text_of(name))
    ] == []


def compiled_files() -> list[str]:
    """Return the files that mypyc compiles, relative to the root."""
    setup = runpy.run_path(str(ROOT / "setup.py"))
    return [file for room in setup["ROOMS"] for file in setup["files_of"](room)]


def test_a_compiled_class_that_may_be_missing_and_may_be_empty_says_when_it_is_true():
    """mypyc takes `if it:` of `it: Kind | None` for `is not None` unless Kind has a __bool__, whatever its length."""
    trees = [ast.parse(text_of(name)) for name in compiled_files()]
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    methods = {node.name: {one.name for one in node.body if isinstance(one, ast.FunctionDef)} for node in classes}
    sized = {name for name, names in methods.items() if "__len__" in names and "__bool__" not in names}
    sources = "".join(map(text_of, compiled_files()))
    assert {name for name in sized if re.search(rf"\b{name}(\[[^]]*\])? \| None", sources)} == set()
    assert "__bool__" in methods["SegmentList"]


def test_a_generator_expression_of_compiled_code_is_used_up_where_it_stands():
    """mypyc makes a list of it, so one that is kept for later would do all of its work at once."""
    kept = []
    for name in compiled_files():
        tree = ast.parse(text_of(name))
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.GeneratorExp) or isinstance(parents[node], ast.Starred):
                continue
            call = parents[node].func if isinstance(parents[node], ast.Call) else None
            if (call.id if isinstance(call, ast.Name) else getattr(call, "attr", "")) not in USES_UP:
                kept.append(f"{name}:{node.lineno}")
    assert kept == []


USES_UP = {
    "all", "any", "bytearray", "bytes", "dict", "extend", "frozenset", "join", "list", "max", "min", "next", "set",
    "sorted", "sum", "tuple", "update",
}  # fmt: skip


def test_faults2_3_0_every_command_has_a_case_that_measures_how_its_cost_grows():
    assert commands() - {row.name for row in ROWS} == {"quit", "shutdown"}  # which end the connection, or the server
    assert {row.name for row in ROWS} <= commands()


def test_faults2_3_0_the_commands_that_stay_whole_are_those_that_are_listed():
    section = text_of("docs/guarantees.md").split("## Commands that stay whole")[1].split("\n## ")[0]
    listed = named_in_cells([line for line in section.splitlines() if line.startswith("|")][2:])
    assert sorted(listed - commands()) == []
    whole = {row.name for row in ROWS if row.whole}
    assert listed == whole | {"evalsha", "evalsha_ro"}  # which are EVAL of a script that is known


def commands() -> set[str]:
    """Return the names of all commands, and of subcommands where a command has some, as COMMAND LIST has them."""
    import streamd.commands  # noqa: F401  (declares the commands)
    from streamd.catalog import COMMANDS

    return {command.name for command in COMMANDS.leaves()}


def named_in_cells(table: list[str]) -> set[str]:
    """Return the commands that the second column of a table names, as COMMAND LIST has them."""
    names = (name.partition(" with ")[0] for row in table for name in row.split("|")[2].split(","))
    return {name.strip().lower().replace(" ", "|") for name in names}

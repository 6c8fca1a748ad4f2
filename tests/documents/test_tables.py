"""The tables of the documents are those of the code, and the README stays a page that one reads."""

import re
import tomllib

import streamd.commands  # noqa: F401  (declares them)
from scripts import tables_speed
from streamd.base import failure
from streamd.catalog import COMMANDS
from streamd.configuration.server_options import OPTIONS
from streamd.distribution import NAME
from tests.documents.blocks import ROOT

README_LINES_MAX = 115  # two screens and the table of documents
LINE_LENGTH_MAX = 120  # but for tables and links, which wrap


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def test_the_readme_is_short():
    lines = text_of("README.md").splitlines()
    assert len(lines) <= README_LINES_MAX
    assert [line for line in lines if len(line) > LINE_LENGTH_MAX and not line.startswith("|")] == []


def test_the_readme_leads_to_every_document():
    documents = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")}
    assert documents - set(re.findall(r"\]\(([\w./-]+)", text_of("README.md"))) == set()


def test_the_table_of_options_is_that_of_the_server():
    rows = [line for line in text_of("docs/options.md").splitlines() if line.startswith("| `--")]
    offered = [option for option in OPTIONS.values() if option.flag]
    wanted = [f"| `--{one.name}` | {one.format(one.default) or 'none'} | {one.help} |" for one in offered]
    assert rows == wanted, "the table should be:\n" + "\n".join(wanted)


def test_the_commands_on_values_are_those_of_the_server():
    groups = [
        ("streams", "stream"), ("strings, bits", "string bitmap"), ("hashes", "hash"), ("lists", "list"),
        ("sets", "set"), ("sorted sets", "sorted-set"), ("keys", "generic"),
    ]  # fmt: skip
    wanted = []
    for title, names in groups:
        found = sorted(name.decode().upper() for name, one in COMMANDS.items() if one.group in names.split())
        wanted.append(f"| {title} | {' '.join(found)} |")
    rows = text_of("docs/commands.md").split("|---|---|\n")[1].split("\n\n")[0].splitlines()
    assert rows == wanted, "the table should be:\n" + "\n".join(wanted)


def test_the_exit_codes_are_those_of_the_command_line():
    table = text_of("docs/options.md").split("| exit code | meaning |\n")[1].split("\n\n")[0]
    codes = [int(number) for number in re.findall(r"^\| (\d) \|", table, re.MULTILINE)]
    assert codes == sorted(
        value for name, value in vars(failure).items() if name.startswith("EXIT_") and isinstance(value, int)
    )


def test_each_dependency_has_its_reason():
    project = tomllib.loads(text_of("pyproject.toml"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    wanted += re.findall(r'^(?:MYPY|LIBRT) = "(.*)"', text_of("setup.py"), re.MULTILINE)  # of the compiled form
    assert "librt>=0.16" in wanted
    names = {re.split(r"[^\w.-]", one, maxsplit=1)[0].lower() for one in wanted} - {NAME}
    rows = [line.split(" | ") for line in text_of("docs/dependencies.md").splitlines() if line.startswith("| ")]
    said = {name.strip(" |") for row in rows for name in row[0].split(",")}
    assert names - said == set()
    assert [row for row in rows if len(row) != 3 or not row[2].strip(" |")] == []


def test_the_speed_tables_of_the_documents_have_the_figures_of_the_newest_measurement():
    made = tables_speed.tables()
    documents = {"README.md", "bench/NOTES.md"}
    documents |= {f"docs/{name}.md" for name in ("idempotence", "mqtt", "operations", "spark-reference", "speed")}
    assert {str(path.relative_to(ROOT)) for path, _ in made} == documents
    for (path, name), table in made.items():
        text = path.read_text(encoding="utf-8")
        assert tables_speed.shown(text, name) == table, "`python -m scripts.tables_speed` writes it anew"

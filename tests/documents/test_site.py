"""The site of documents has a place for each document and each command, and its links lead to them."""

import posixpath
import re

import pytest

from scripts import command_pages, site_hook
from streamd.catalog import COMMANDS
from tests.documents.blocks import ROOT

CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = command_pages.pages()
DIFFERENCES = command_pages.DIFFERENCES.read_text(encoding="utf-8")


def test_each_page_has_its_place_in_the_navigation():
    named = set(re.findall(r"[\w./-]+\.md", CONFIG.split("\nnav:\n")[1]))
    documents = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert named == documents | set(site_hook.ELSEWHERE.values()) | set(PAGES)


def test_each_command_has_a_heading_on_the_page_of_its_group():
    for one in COMMANDS.values():
        page = PAGES[command_pages.path_of(one.group)]
        assert f"\n## {one.name.upper()}\n" in page
        for leaf in one.subcommands.values():
            if leaf.name.endswith("|help"):  # which says the same in each
                continue
            assert f"\n### {leaf.name.upper().replace('|', ' ')}\n" in page


def test_a_page_shows_what_command_info_and_docs_say():
    xadd = PAGES["commands/stream.md"].split("\n## XADD\n")[1].split("\n## ")[0]
    assert "[IDMPAUTO producer-id | IDMP producer-id idempotent-id]" in xadd
    for row in ("| since | Redis 5.0.0 |", "| flags | denyoom fast write |", "| ACL | @write @stream @fast |"):
        assert row in xadd
    assert "| keys | word 1: read and written |" in xadd
    assert "forgotten exactly when its duration has passed" in xadd


def test_each_syntax_is_whole_although_it_is_shown_in_lines():
    for one in COMMANDS.leaves():
        text = command_pages.syntax_of(one)
        assert " ".join(command_pages.wrapped(text).split()) == text
        assert not re.search(r":(integer|double|string)\b", text)


def test_the_rows_of_the_differences_are_all_read():
    rows = command_pages.differences(DIFFERENCES)
    assert len(rows) == sum(line.startswith("|") for line in DIFFERENCES.splitlines()) - 2 * 3
    assert all(len(row.cells) in (2, 3) for row in rows)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("XREADGROUP, XCLAIM, and `XADD ... MAXLEN 0`", ["xadd", "xclaim", "xreadgroup"]),
        ("`CONFIG GET` of defaults", ["config|get"]),
        ("SCRIPT DEBUG, and nothing of SETINFO", ["script"]),
        ("a GET and a NOSUCHCOMMAND", ["get"]),
        ("no command", []),
    ],
)
def test_the_commands_that_a_row_names_are_found(text: str, names: list[str]):
    assert command_pages.commands_named(text) == names


@pytest.mark.parametrize(
    "page", sorted({*site_hook.ELSEWHERE.values(), *(p.name for p in (ROOT / "docs").glob("*.md"))})
)
def test_the_links_of_a_page_lead_to_pages(page: str):
    source = site_hook.source_of(page)
    assert source is not None
    text = site_hook.for_site((ROOT / source).read_text(encoding="utf-8"), page)
    prose = re.sub(r"```.*?^ *```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    goals = {re.sub(r"#.*", "", goal) for goal in re.findall(r"\]\((?!\w+:|#)([^)\s]+)\)", prose)}
    made = {*site_hook.ELSEWHERE.values(), *site_hook.PICTURES.values(), *PAGES}
    places = {posixpath.normpath(posixpath.join(posixpath.dirname(page), goal)) for goal in goals}
    assert [place for place in places if place not in made and not (ROOT / "docs" / place).exists()] == []


@pytest.mark.parametrize(
    ("page", "text", "shown"),
    [
        ("index.md", "see [Spark](docs/spark-reference.md#options)", "see [Spark](spark-reference.md#options)"),
        ("index.md", "![it](docs/pictures/ui-streams.png)", "![it](pictures/ui-streams.png)"),
        ("ui.md", "[why](../README.md)", "[why](index.md)"),
        ("ui.md", "[the list](../tests/redis_suite/skipped.txt)", "the list"),
        ("speed.md", "[`rows`](../bench/results/long.md)", "[`rows`](results/long.md)"),
        ("ui.md", "`[no](link)` and [out](https://redis.io)", "`[no](link)` and [out](https://redis.io)"),
        ("ui.md", "| fish | `a \\| b*` |", "| fish | <code>a &#124; b&#42;</code> |"),
        (
            "ui.md",
            '<picture><source media="(prefers-color-scheme: dark)" srcset="pictures/ui-streams-dark.png">'
            '<img src="pictures/ui-streams.png" alt="it"></picture>',
            '<img src="pictures/ui-streams.png#only-light" alt="it"> '
            '<img src="pictures/ui-streams-dark.png#only-dark" alt="it">',
        ),
        ("commands.md", "| streams | XADD |", "| streams | [XADD](commands/stream.md#xadd) |"),
        ("commands.md", "| scripts | `EVAL` |", "| scripts | `EVAL` |"),
    ],
)
def test_a_link_of_the_repository_is_one_of_the_site(page: str, text: str, shown: str):
    assert site_hook.for_site(text, page) == shown


def test_a_link_to_nothing_ends_the_build():
    with pytest.raises(site_hook.BrokenLink, match=re.escape("docs/ui.md links to nothing.md")):
        site_hook.for_site("[it](nothing.md)", "ui.md")

"""Adds pages outside of docs/ to the site of documents: from elsewhere in the repository, and of commands.

Documents link to files of the repository as they stand there, so that they can be read without a site. On the site a
link to a file that has a page leads to that page, a link to any other file is its name; one to no file ends the build.
"""

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from scripts import command_pages  # noqa: E402  (mkdocs runs this file by its path)

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

# File of the repository -> page of the site. All of docs/ has pages under the same names.
ELSEWHERE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "trust.md",
    "examples/README.md": "examples.md",
    "bench/NOTES.md": "notes.md",
    "bench/results/long.md": "results/long.md",
}
# Pictures beside the tables of the benchmark.
PICTURES = {
    f"bench/results/{file.name}": f"results/{file.name}"
    for file in sorted((ROOT / "bench" / "results").iterdir())
    if file.suffix in (".png", ".svg")
}
TITLES = {"results/long.md": "# All rows of the benchmark"}
# What a newcomer asks for comes before what only names it: the search shows ten pages at a time.
FIRST_FOUND = ("idempotence.md", "start.md", "spark.md", "guarantees.md", "exactly-once.md")
# Of Markdown: what is code, which is left alone, or a link; of HTML: an image.
LINK = re.compile(
    r"```.*?^ *```|`[^`\n]*`(?!\]\()|(!?)\[((?:`[^`]*`|[^\]`])*)\]\(([^)\s]+)\)|(<img src=\")([^\"]+)", re.M | re.S
)
# A picture in two files. GitHub shows the one for the reader's system; on the site the reader's switch decides.
PAIR = re.compile(
    r'<picture><source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)"><img src="([^"]+)"([^>]*)></picture>'
)
# Code in a table with a bar in it: GitHub takes the backslash before the bar away, Markdown for Python does not.
BARRED = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")


class BrokenLink(Exception):
    """A document links to a missing file."""


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    for source, page in ELSEWHERE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if page in TITLES:
            text = f"{TITLES[page]}\n\n{text}"
        files.append(File.generated(config, page, content=text))
    for source, picture in PICTURES.items():
        files.append(File.generated(config, picture, abs_src_path=str(ROOT / source)))
    for page, text in command_pages.pages().items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    """Return a page's text with the links of the repository as links of the site."""
    from mkdocs.exceptions import PluginError

    if page.file.src_uri in FIRST_FOUND:
        page.meta["search"] = {"boost": 3}
    try:
        return for_site(markdown, page.file.src_uri)
    except BrokenLink as broken:
        raise PluginError(str(broken)) from None


def on_post_build(config: "MkDocsConfig") -> None:
    """Add an empty index of the search: on a page that is a file the theme's script asks for it, and ends without."""
    path = Path(config.site_dir) / "search" / "search_index.js"
    path.write_text('var __index = {"config": {}, "docs": []};\n', encoding="utf-8")


def for_site(markdown: str, page: str) -> str:
    """Return the text of a document as `page` of the site shows it. Raises: BrokenLink."""
    source = source_of(page)
    if source is None:
        return markdown
    if page == "commands.md":
        markdown = with_links_to_commands(markdown)
    markdown = PAIR.sub(r'<img src="\2#only-light"\3> <img src="\1#only-dark"\3>', markdown)

    def link(found: re.Match[str]) -> str:
        image, text, target, tag, address = found.groups()
        if address is not None:
            return f"{tag}{place(address, source, page)}"
        if target is None or re.match(r"\w+:|#|commands/", target):
            return found[0]
        goal = place(target, source, page)
        return text if goal is None else f"{image}[{text}]({goal})"

    return BARRED.sub(lambda found: as_html(found[1].replace("\\|", "|")), LINK.sub(link, markdown))


def as_html(code: str) -> str:
    """Return code as HTML in which Markdown finds nothing of its own."""
    return f"<code>{''.join(one if one.isalnum() or one == ' ' else f'&#{ord(one)};' for one in code)}</code>"


def source_of(page: str) -> str | None:
    """Return the file of the repository behind a page; None for generated pages."""
    for source, known in ELSEWHERE.items():
        if known == page:
            return source
    return None if page.startswith("commands/") else f"docs/{page}"


def place(target: str, source: str, page: str) -> str | None:
    """Return the target on `page` of a link in the file `source`; None where the site has no such page.

    Raises: BrokenLink.
    """
    path, _, anchor = target.partition("#")
    goal = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if not (ROOT / goal).exists():
        raise BrokenLink(f"{source} links to {target}: there is no {goal}")
    if goal in ELSEWHERE or goal in PICTURES:
        known = {**ELSEWHERE, **PICTURES}[goal]
    elif goal.startswith("docs/"):
        known = goal.removeprefix("docs/")
    else:
        return None
    there = posixpath.relpath(known, posixpath.dirname(page) or ".")
    return f"{there}#{anchor}" if anchor else there


def with_links_to_commands(markdown: str) -> str:
    """Return the table of commands with a link behind each name."""
    tables = command_pages.COMMANDS

    def linked(found: re.Match[str]) -> str:
        command = tables.get(found[0].lower().encode())
        if command is None:
            return found[0]
        return f"[{found[0]}]({command_pages.path_of(command.group)}#{command_pages.anchor_of(command)})"

    def linked_in(line: str) -> str:
        is_list = line.startswith("| ") and "`" not in line
        return re.sub(r"\b[A-Z_]{3,}\b", linked, line) if is_list else line

    return "\n".join(map(linked_in, markdown.split("\n")))

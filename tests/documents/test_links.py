"""The links of the documents lead somewhere in the repository, as it is read without a site."""

import re
from functools import cache

import pytest

from tests.documents.blocks import ROOT, documents

FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"`[^`\n]*`(?!\]\()|\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")


@cache
def prose_of(document: str) -> str:
    return FENCE.sub("", (ROOT / document).read_text(encoding="utf-8"))


def targets(document: str) -> list[str]:
    found = (one[0] or one[1] for one in LINK.findall(prose_of(document)))
    return [target for target in found if target and not re.match(r"\w+:", target)]


@cache
def anchors(document: str) -> set[str]:
    """Return the anchors of the headings, as GitHub names them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.+?) *$", prose_of(document), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


@pytest.mark.parametrize("document", documents())
def test_every_link_leads_to_a_file_and_a_heading(document):
    broken = []
    for target in targets(document):
        path, _, anchor = target.partition("#")
        goal = ((ROOT / document).parent / path).resolve() if path else ROOT / document
        if not goal.exists() or (anchor and anchor not in anchors(str(goal.relative_to(ROOT)))):
            broken.append(target)
    assert broken == []


def test_links_are_found():
    assert len([target for document in documents() for target in targets(document)]) > 60

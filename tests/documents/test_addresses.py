"""Where the repository and its issue tracker are stands in pyproject.toml alone, and the README leads there."""

import re
import tomllib

import pytest

from tests.documents.blocks import ROOT, documents

ADDRESSES = {"Repository", "Issues"}
OF_A_REPOSITORY = re.compile(r"https?://[^\s)`\"]*/streamd(?:\.git)?\b")


def fault_in(urls: dict[str, str]) -> str:
    """Return what is wrong with the table of addresses; empty if it is empty or whole."""
    if urls and set(urls) != ADDRESSES:
        return f"needs {sorted(ADDRESSES)}"
    return "" if all(one.startswith("https://") for one in urls.values()) else "is no address"


def test_the_addresses_are_missing_or_whole():
    assert fault_in(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]) == ""


@pytest.mark.parametrize(
    ("urls", "fault"),
    [
        ({}, ""),
        ({"Repository": "https://example.org/streamd", "Issues": "https://example.org/streamd/issues"}, ""),
        ({"Repository": "https://example.org/streamd"}, "needs ['Issues', 'Repository']"),
        ({"Repository": "", "Issues": "later"}, "is no address"),
    ],
)
def test_the_check_of_addresses_finds_faults(urls, fault):
    assert fault_in(urls) == fault


def test_the_readme_leads_to_the_addresses():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "git clone REPOSITORY streamd" in readme
    assert "[pyproject.toml](pyproject.toml), `[project.urls]`" in readme


@pytest.mark.parametrize("document", [*documents(), "CHANGELOG.md"])
def test_no_document_has_an_address_of_its_own(document):
    assert OF_A_REPOSITORY.findall((ROOT / document).read_text(encoding="utf-8")) == []

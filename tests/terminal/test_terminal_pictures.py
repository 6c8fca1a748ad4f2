"""The pictures of `streamd tail` and `top` are terminals that one can read, shown where they are explained."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from scripts.pictures_terminal import PICTURES, render

DOCUMENT = Path(__file__).parents[2] / "docs" / "terminal.md"
SVG = "{http://www.w3.org/2000/svg}"


def lines(drawn: str) -> list[str]:
    """Return the lines of the terminal in a picture."""
    texts: dict[str, str] = {}
    for text in ElementTree.fromstring(drawn).iter(f"{SVG}text"):
        if "clip-path" in text.attrib:
            place = text.attrib["y"]
            texts[place] = texts.get(place, "") + (text.text or "").replace("\xa0", " ")
    return [line.rstrip() for line in texts.values()]


def test_a_screen_is_drawn_with_its_words_and_colours_and_asks_for_nothing_from_elsewhere():
    drawn = render("$ streamd tail s\n\x1b[1;36m1-0\x1b[0m  \x1b[32ma\x1b[0m=<1>\n\n\n", "streamd tail")
    assert lines(drawn) == ["$ streamd tail s", "1-0a=<1>"]  # (blanks between colours are no text there)
    fills = set(re.findall(r"r\d+ \{ fill: (#\w+)", drawn))
    assert len(fills) >= 3
    assert set(re.findall(r"https?://[^\"\s]*", drawn)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
    assert "url(" not in re.sub(r"url\(#", "", drawn)
    assert render("one", "streamd top") == render("one", "streamd top")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("terminal-tail.svg", ["$ streamd tail orders", "billing: done", "pending with ann for", "billing: waiting"]),
        ("terminal-top.svg", ["commands/s", "Streams: 4", "added/s", "Groups: 5", "lag", "Clients: 2", "streamd-top"]),
    ],
)
def test_a_picture_of_the_document_shows_what_the_document_explains(name, wanted):
    shown = "\n".join(lines((PICTURES / name).read_text(encoding="utf-8")))
    assert [words for words in wanted if words not in shown] == []
    assert f"(pictures/{name})" in DOCUMENT.read_text(encoding="utf-8")

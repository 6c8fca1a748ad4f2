"""The pictures of the documents are what the scripts draw, and show what the documents say."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from scripts import pictures_failures
from scripts.failure_scenes import SCENES
from scripts.svg import Picture

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = pictures_failures.pictures()
POINTS = list(pictures_failures.table())


def shapes(text: str, kind: str, name: str = "") -> list[ElementTree.Element]:
    """Return the shapes of a kind in a picture; name: those of a class."""
    found = ElementTree.fromstring(text).iter(f"{SVG}{kind}")
    return [one for one in found if not name or name in one.get("class", "").split()]


def words(text: str) -> list[str]:
    return [one.text or "" for one in shapes(text, "text")]


def test_each_row_of_the_table_of_failures_has_its_picture_and_the_document_shows_it():
    assert len(POINTS) == 18
    assert list(SCENES) == POINTS
    shown = [line for line in pictures_failures.DOCUMENT.read_text().splitlines() if line.startswith("![")]
    assert shown == pictures_failures.lines(), "the lines should be:\n" + "\n\n".join(pictures_failures.lines())


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_of_a_failure_is_the_one_that_the_script_draws(name):
    committed = (pictures_failures.PICTURES / name).read_text(encoding="utf-8")
    assert committed == DRAWN[name], "`make pictures` draws it anew"


def test_there_is_no_picture_of_a_failure_that_the_table_does_not_have():
    assert {path.name for path in pictures_failures.PICTURES.glob("failure-*.svg")} == set(DRAWN)


@pytest.mark.parametrize("point", POINTS)
def test_a_picture_of_a_failure_marks_it_and_says_what_the_table_promises(point):
    text = DRAWN[f"failure-{point}.svg"]
    _, promises = pictures_failures.table()[point]
    assert [cut.text for cut in shapes(text, "text", "cut")] == [cut.text for cut in SCENES[point].cuts] != []
    assert len(shapes(text, "rect", "promise")) == len(promises) == 5
    assert words(text)[-10:] == [word for pair in promises.items() for word in pair]
    (title,) = shapes(text, "title")
    assert title.text == SCENES[point].alt


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_of_a_picture_is_outside_of_it(name):
    root = ElementTree.fromstring(DRAWN[name])
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for box in root.iter(f"{SVG}rect"):
        left, top = float(box.get("x", 0)), float(box.get("y", 0))
        assert 0 <= left <= left + float(box.get("width", 0)) <= width - 0.5, ElementTree.tostring(box)
        assert 0 <= top <= top + float(box.get("height", 0)) <= height - 0.5, ElementTree.tostring(box)


def test_a_promise_that_changes_changes_the_picture():
    happens, promises = pictures_failures.table()["2"]
    other = pictures_failures.Timeline(SCENES["2"], "2", happens, {**promises, "content": "duplicates"}).text()
    assert other != DRAWN["failure-2.svg"]
    assert words(other).count("duplicates") == words(DRAWN["failure-2.svg"]).count("duplicates") + 1


def test_every_colour_of_a_picture_is_one_on_light_and_on_dark_pages():
    picture = Picture(100, 50, "a title < another")
    picture.words(10, 20, "<b> & c", "green")
    text = picture.text()
    light, dark = re.search(r"<style>(.*)@media \(prefers-color-scheme:dark\)\{(.*)\}</style>", text).groups()
    assert ".f-green{fill:#1a7f37}" in light
    assert ".f-green{fill:#3fb950}" in dark
    assert words(text) == ["<b> & c"]
    for drawn in [text, *DRAWN.values()]:
        used = {name for shape in ElementTree.fromstring(drawn).iter() for name in shape.get("class", "").split()}
        assert {f".{name}{{" in light and f".{name}{{" in dark for name in used - {"cut", "promise"}} == {True}

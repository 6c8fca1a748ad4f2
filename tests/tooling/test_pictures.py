"""The pictures of the documents are what the scripts draw, and show what the documents say."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from bench import plots
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
    assert len(POINTS) == 21
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


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, by the definition of WCAG: 1 to 21."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


# (A terminal brings its own dark ground.)
@pytest.mark.parametrize(
    "name", sorted(path.name for path in plots.PICTURES.glob("*.svg") if not path.name.startswith("terminal-"))
)
def test_the_words_of_a_picture_can_be_read_on_light_and_on_dark_pages(name):
    text = (plots.PICTURES / name).read_text(encoding="utf-8")
    light, _, dark = text.partition("@media (prefers-color-scheme:dark)")
    for rules in (light, dark):
        fills = dict(re.findall(r"\.f-([\w-]+)\{fill:(#\w{6})\}", rules))
        ground, *_ = (shape.get("class", "").split()[0][2:] for shape in shapes(text, "rect"))
        used = {one.get("class", "").split()[0][2:] for one in shapes(text, "text")} - {ground}
        assert used
        assert {colour: fills[colour] for colour in used if contrast(fills[colour], fills[ground]) < 4.5} == {}


# --- bench -----------------------------------------------------------------------------------------------------------

RATES: list[plots.Row] = [
    {"name": "twice as quick", "ratio": 2.0, "wanted": 0.5},
    {"name": "half as quick", "ratio": 0.5, "wanted": 1.0},
    {"name": "alike", "ratio": 1.0},
]
COSTS: list[plots.Row] = [{"name": "memory: half the bytes", "ratio": 0.5, "wanted_at_most": 0.75}]
CURVE: plots.Row = {
    "name": "XADD by clients",
    "points": [1, 10, 100],
    "growth": 1.0,
    "flat": False,
    "xlabel": "clients at a time",
    "streamd": [1_000.0, 2_000.0, 4_000.0],
    "redis-server": [1_000.0, 1_500.0, 1_750.0],
    "streamd_cpu_us": [8.0, 6.0, 5.0],
    "redis-server_cpu_us": [8.0, 7.0, 6.0],
}
ALONE: plots.Row = {"name": "idle CPU", "figure": 0.2, "unit": "%"}


def test_a_table_is_drawn_with_a_bar_for_each_row_that_has_a_ratio_and_a_picture_for_each_curve(tmp_path):
    paths = plots.write(
        [*RATES, *COSTS, CURVE, ALONE, {"name": "without redis-server", "ratio": None}], "short", tmp_path
    )
    assert [path.name for path in paths] == ["short-ratios.svg", "short-costs.svg", "short-xadd-by-clients.svg"]
    ratios, costs, _ = (path.read_text() for path in paths)
    assert [one.text for one in shapes(ratios, "text", "row")] == ["twice as quick", "half as quick", "alike"]
    assert [one.text for one in shapes(ratios, "text", "value")] == ["2.00", "0.50", "1.00"]
    assert [one.text for one in shapes(costs, "text", "value")] == ["0.50"]


def test_bars_begin_at_one_and_are_as_long_as_the_ratio_says_and_blue_where_it_is_better():
    twice, half, alike = shapes(plots.bars("Speed", RATES, is_less_better=False), "rect", "bar")
    left, width = float(twice.get("x", 0)), float(twice.get("width", 0))
    assert float(half.get("x", 0)) == pytest.approx(left - width, abs=0.2)
    assert float(half.get("width", 0)) == pytest.approx(width, abs=0.2)
    assert float(alike.get("width", 0)) == 1
    assert ["f-blue" in one.get("class", "") for one in (twice, half)] == [True, False]
    less = shapes(plots.bars("Bytes", RATES, is_less_better=True), "rect", "bar")
    assert ["f-blue" in one.get("class", "") for one in less[:2]] == [False, True]


def test_the_compiled_form_has_a_thin_bar_below_and_what_is_spent_may_be_figures_with_a_unit():
    row: plots.Row = {"name": "DEL", "unit": "s", "figures": {"streamd": 1.0}, "ratio": 2.0, "wanted_text": "0.5 x"}
    (name,) = drawn = plots.draw([{**row, "compiled_ratio": 4.0}], "short")
    assert name == "short-costs.svg"
    (bar,), (thin,) = (shapes(drawn[name], "rect", of) for of in ("bar", "compiled"))
    assert float(thin.get("width", 0)) == pytest.approx(2 * float(bar.get("width", 0)), abs=0.2)
    assert float(thin.get("y", 0)) >= float(bar.get("y", 0)) + float(bar.get("height", 0))
    assert "f-amber" in bar.get("class", "")
    assert any("violet: compiled" in text for text in words(drawn[name]))
    assert not shapes(plots.draw([row], "short")[name], "rect", "compiled")
    strokes = [line for line in shapes(drawn[name], "polyline") if line.get("stroke-width") == "2"]
    assert len(strokes) == 1  # of what is wanted


def test_a_curve_has_a_dot_for_each_point_of_each_server_at_the_height_of_its_figure():
    dots = shapes(plots.curves(CURVE), "circle")
    assert len(dots) == 2 + 2 * 2 * 3  # two of the legend; two panels, two servers, three points
    streamd, redis_server = dots[2:5], dots[5:8]
    bottom = 100 + plots.PANEL_HEIGHT
    heights = [bottom - float(dot.get("cy", 0)) for dot in streamd]
    assert heights == pytest.approx([heights[2] / 4, heights[2] / 2, plots.PANEL_HEIGHT], abs=0.2)
    assert streamd[0].get("cy") == redis_server[0].get("cy")
    assert words(plots.curves(CURVE)).count("clients at a time") == 2
    with_latency = {**CURVE, "streamd_p50_ms": [0.1, 0.2, 0.3], "redis-server_p50_ms": [0.1, 0.2, 0.3]}
    assert "p50 in ms" in words(plots.curves(with_latency))
    only_streamd = {name: value for name, value in CURVE.items() if not name.startswith("redis-server")}
    assert len(shapes(plots.curves(only_streamd), "circle")) == 1 + 2 * 3


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.25, "0.25"), (1_500, "1.5k"), (10_000_000, "10M")])
def test_numbers_at_an_axis_are_short(value, text):
    assert plots.short(value) == text


def test_the_pictures_of_speed_are_drawn_from_the_newest_table_and_the_document_shows_each():
    table = plots.newest()
    drawn = plots.draw(table, "speed")
    bars = [bar for text in drawn.values() for bar in shapes(text, "rect", "bar")]
    assert len(bars) == sum(row.get("ratio") is not None for row in table) > 40
    for name, text in drawn.items():
        assert (plots.PICTURES / name).read_text(encoding="utf-8") == text, "`make pictures` draws it anew"
    shown = re.findall(r"\(pictures/(speed-.*?)\)", (plots.ROOT / "docs" / "speed.md").read_text())
    assert sorted(shown) == sorted(drawn)
    assert {path.name for path in plots.PICTURES.glob("speed-*")} == set(drawn)

"""Makes the pictures of docs/exactly-once.md in docs/pictures/: a timeline for each row of its table."""

import re
import sys
from pathlib import Path

from scripts.failure_scenes import KNOWN, LOST_REPLY, LOST_REQUEST, OPEN, SCENES, UNSENT, Attempt, Bar, Cut, Scene
from scripts.svg import Picture

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "exactly-once.md"
PICTURES = DOCUMENT.parent / "pictures"
UNIT, LEFT, WIDTH, BOX = 20, 96, 780, 17
LANE_TOP, LANE_HEIGHT = 84, 62
CHIPS = {"once": "green", "duplicates": "amber", "stops": "violet", "loses and duplicates": "red", "leaves out": "red"}


def table() -> dict[str, tuple[str, dict[str, str]]]:
    """Return the document's promises: row to failure, and identity to promise."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in DOCUMENT.read_text().splitlines()]
    (head,) = [cells for cells in rows if cells[0] == "#"]
    return {
        cells[0]: (cells[1], dict(zip(head[2:], cells[2:], strict=True)))
        for cells in rows
        if len(cells) == len(head) and re.fullmatch(r"\d+[a-z]?", cells[0])
    }


def x_of(time: float) -> float:
    return LEFT + UNIT * time


class Timeline:
    """The lanes and events of one scene."""

    def __init__(self, scene: Scene, point: str, happens: str, promises: dict[str, str]) -> None:
        self._knows = any(KNOWN in attempt.fates for attempt in scene.attempts)
        executors = ["executor 1", "executor 2"] if scene.executors == 2 else ["executor"]
        self._lanes = ["driver", *executors, "server", "stream"]
        self._height = LANE_TOP + LANE_HEIGHT * len(self._lanes) + 50
        self._picture = Picture(WIDTH, self._height, scene.alt)
        plain = re.sub(r"`([^`]*)`", r"\1", happens)
        self._picture.words(20, 32, f"{point}   {plain}", size=15, weight=600)
        self._draw_lanes()
        for attempt in scene.attempts:
            self._draw_arrows(attempt)
        for time, text in scene.marks:
            self._draw_mark(time, text)
        for bar in scene.bars:
            self._draw_bar(bar)
        for attempt in scene.attempts:
            self._draw_attempt(attempt)
        for cut in scene.cuts:
            self._draw_cut(cut)
        note = scene.note or (
            "known: the server has the row's name, and answers with the ID of its entry" if self._knows else ""
        )
        self._picture.words(LEFT, self._y("stream") + 28, note, "faint", 11.5)
        self._draw_promises(promises)

    def text(self) -> str:
        """Return the picture's file."""
        return self._picture.text()

    def _y(self, lane: str) -> float:
        return LANE_TOP + LANE_HEIGHT * self._lanes.index(lane)

    def _executor(self, attempt: Attempt) -> str:
        return self._lanes[attempt.executor]

    def _draw_lanes(self) -> None:
        for lane in self._lanes:
            self._picture.line((LEFT, self._y(lane)), (WIDTH - 20, self._y(lane)))
            self._picture.words(LEFT - 12, self._y(lane) + 4, lane, "faint", anchor="end")

    def _places(self, attempt: Attempt) -> list[tuple[float, str, str]]:
        """Return of each row the middle of its box, its name and its fate."""
        rows = attempt.rows.split()
        assert len(rows) == len(attempt.fates), attempt
        return [
            (x_of(attempt.start + 0.7 + attempt.step * number), row, fate)
            for number, (row, fate) in enumerate(zip(rows, attempt.fates, strict=True))
        ]

    def _draw_arrows(self, attempt: Attempt) -> None:
        top, server, stream = self._y(self._executor(attempt)), self._y("server"), self._y("stream")
        for x, row, fate in self._places(attempt):
            if fate == UNSENT:
                continue
            if fate == LOST_REQUEST:
                self._picture.line((x, top), (x, server - 22), colour="red", dashes="3 3")
                continue
            is_open = fate == OPEN
            self._picture.line((x, top), (x, server), colour="faint" if is_open else "blue", dashes="3 3" * is_open)
            self._picture.dot(x, server, 3.5, "faint" if is_open else "blue")
            if fate != KNOWN:
                self._picture.line(
                    (x, server), (x, stream - 9), colour="faint" if is_open else "blue", dashes="3 3" * is_open
                )
            if fate == LOST_REPLY:
                self._picture.line((x + 4, server - 2), (x + 4, server - 22), colour="red", dashes="3 3")
            if fate != KNOWN:
                self._draw_entry(x, row, fate)
        self._draw_known(attempt)

    def _draw_known(self, attempt: Attempt) -> None:
        """Write below each run of rows that the server knows, and answers with the ID that was: known."""
        run: list[float] = []
        for x, _, fate in [*self._places(attempt), (0.0, "", "")]:
            if fate == KNOWN:
                run.append(x)
            elif run:
                y = self._y("server") + (12 if attempt.executor == len(self._lanes) - 3 else 26)
                if len(run) > 1:
                    self._picture.line((run[0], y - 4), (run[0], y), (run[-1], y), (run[-1], y - 4), colour="green")
                self._picture.words((run[0] + run[-1]) / 2, y + 11, "known", "green", 10.5, "middle", is_above=True)
                run = []

    def _draw_entry(self, x: float, row: str, fate: str) -> None:
        y = self._y("stream")
        if fate == OPEN:
            self._row(x, y, "?", "ground", "faint", "3 2")
        else:
            self._row(x, y, row, "blue", "blue")

    def _row(self, x: float, y: float, text: str, fill: str, edge: str, dashes: str = "") -> None:
        self._picture.box(x - BOX / 2, y - BOX / 2, BOX, BOX, fill, edge, dashes)
        self._picture.words(
            x, y + 4, text, "ground" if fill == "blue" else "ink", 12.5 - 1.5 * len(text), "middle", 600
        )

    def _draw_attempt(self, attempt: Attempt) -> None:
        places, y = self._places(attempt), self._y(self._executor(attempt))
        left, right = places[0][0] - 14, places[-1][0] + 14
        self._picture.box(left, y - 14, right - left, 28, "pale", "blue")
        self._picture.words(left, y - 19, attempt.title, size=11)
        for x, row, fate in places:
            self._row(x, y, row, "ground", "faint" if fate == UNSENT else "blue", "3 2" * (fate == UNSENT))

    def _draw_bar(self, bar: Bar) -> None:
        y, left, width = self._y(bar.lane), x_of(bar.start), UNIT * (bar.end - bar.start)
        fill, edge, dashes = ("ground", "red", "4 3") if bar.is_gone else ("pale", "blue", "")
        self._picture.box(left, y - 12, width, 24, fill, edge, dashes)
        self._picture.words(left + width / 2, y + 4, bar.text, size=11, anchor="middle")

    def _draw_mark(self, time: float, text: str) -> None:
        x = x_of(time)
        self._picture.line((x, self._y("driver")), (x, self._y("server")), colour="blue")
        self._picture.dot(x, self._y("server"), 3.5)
        self._picture.words(x + 7, self._y("server") - 8, text, size=11)

    def _draw_cut(self, cut: Cut) -> None:
        is_between = cut.lane == "connection"
        x, y = x_of(cut.at), self._y("server") - 22 if is_between else self._y(cut.lane)
        if cut.is_death:
            self._picture.cross(x, y)
        else:
            self._picture.line((x, y - 13), (x, y + 13), colour="red", width=3)
        below = 4 if is_between else -18 if cut.lane == "driver" else 26
        x += 11 if is_between else -6
        self._picture.words(x, y + below, cut.text, "red", 11.5, weight=600, name="cut", is_above=True)

    def _draw_promises(self, promises: dict[str, str]) -> None:
        y, x = self._height - 28, 20.0
        for identity, promise in promises.items():
            width = 6.6 * len(f"{identity} {promise}") + 20
            self._picture.box(x, y - 14, width, 22, "ground", CHIPS[promise], name="promise")
            self._picture.words(x + 8, y + 1, identity, "faint", 11.5)
            self._picture.words(x + width - 8, y + 1, promise, CHIPS[promise], 11.5, "end", 600)
            x += width + 8


def pictures() -> dict[str, str]:
    """Return the pictures: name of the file to its text."""
    drawn, before = {}, ""
    for point, (happens, promises) in table().items():
        what = happens.replace("the same with", f"as {before}, with")  # each picture stands by itself
        drawn[f"failure-{point}.svg"] = Timeline(SCENES[point], point, what, promises).text()
        before = point
    return drawn


def lines() -> list[str]:
    """Return the lines with which the document shows the pictures."""
    return [f"![{point}: {SCENES[point].alt}](pictures/failure-{point}.svg)" for point in table()]


def main() -> int:
    """Make the pictures; return an exit code."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (PICTURES / name).write_text(text, encoding="utf-8")
        print(PICTURES / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

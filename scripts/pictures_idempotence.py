"""Draws the pictures of docs/idempotence.md into docs/pictures/, as SVG."""

import sys
from html import escape
from pathlib import Path

from scripts.svg import Colours, style
from streamd.idmp.digest import idmpauto_iid

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
INK, SOFT, GOOD, BAD, PAPER = "ink", "soft", "good", "bad", "paper"
# A name, its colour on a light page, its colour on a dark one; a box is filled with the tint of its colour.
COLOURS: Colours = (
    (INK, "#1f2933", "#e6edf3"),
    (SOFT, "#66717d", "#9198a1"),
    (GOOD, "#00796b", "#4db6ac"),
    (BAD, "#c62828", "#ff8a80"),
    (PAPER, "#ffffff", "#161b22"),
    ("tint-good", "#e0f2ef", "#12332f"),
    ("tint-bad", "#fdeaea", "#41201f"),
    ("tint-soft", "#f1f4f7", "#252b33"),
)


class Drawing:
    """Lines, boxes and text on paper, which belongs to the picture and is dark on a dark page. Lengths are pixels."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="system-ui, sans-serif" font-size="13"><title>{escape(title)}</title>'
            f"{style(COLOURS)}"
        )
        self.parts = [f'<rect class="f-{PAPER}" width="{width}" height="{height}" rx="8"/>']

    def text(
        self, x: float, y: float, text: str, *, colour: str = INK, middle: bool = True, code: bool = False
    ) -> None:
        """Write a line of text at its base line."""
        font = ' font-family="ui-monospace, monospace" font-size="12"' if code else ""
        anchor = ' text-anchor="middle"' if middle else ""
        self.parts.append(f'<text class="f-{colour}" x="{x:g}" y="{y:g}"{anchor}{font}>{escape(text)}</text>')

    def box(
        self, x: float, y: float, width: float, height: float, text: str, colour: str, *, code: bool = False
    ) -> None:
        """Draw a box with a line of text in its middle."""
        classes = f"f-tint-{colour} s-{colour}"
        self.parts.append(f'<rect class="{classes}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>')
        self.text(x + width / 2, y + height / 2 + 4.5, text, code=code)

    def line(self, x: float, y: float, to_x: float, to_y: float, colour: str = SOFT, *, dashed: bool = False) -> None:
        """Draw a straight line."""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<line class="s-{colour}" x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke-width="1.5"{dashes}/>'
        )

    def arrow(self, x: float, y: float, to_x: float, text: str, colour: str = INK, *, code: bool = True) -> None:
        """Draw a level arrow with a line of text above it."""
        back = -8 if to_x > x else 8
        self.line(x, y, to_x, y, colour)
        self.parts.append(f'<path class="f-{colour}" d="M{to_x:g} {y:g}l{back} -4.5v9z"/>')
        self.text((x + to_x) / 2, y - 7, text, colour=colour, code=code)

    def cross(self, x: float, y: float) -> None:
        """Draw a cross, where something breaks."""
        self.parts.append(f'<path class="s-{BAD}" d="M{x - 8:g} {y - 8:g}l16 16m0 -16l-16 16" stroke-width="3"/>')

    def drop(self, x: float, y: float, to_y: float, colour: str) -> None:
        """Draw an arrow that points down, or up."""
        back = -7 if to_y > y else 7
        self.line(x, y, x, to_y, colour)
        self.parts.append(f'<path class="f-{colour}" d="M{x:g} {to_y:g}l-4.5 {back}h9z"/>')

    def save(self, name: str) -> Path:
        """Write the picture; return where it is."""
        path = PICTURES / name
        path.write_text(self.head + "\n" + "\n".join(self.parts) + "\n</svg>\n", encoding="utf-8")
        return path


def retry() -> Path:
    """A reply is lost, the producer sends again, and gets the first ID."""
    picture = Drawing(760, 330, "A reply is lost; the same request again gets the ID of the entry that is there")
    left, right = 110.0, 470.0
    picture.box(left - 75, 14, 150, 30, "producer svc-7", SOFT)
    picture.box(right - 75, 14, 150, 30, "streamd", SOFT)
    picture.line(left, 44, left, 310)
    picture.line(right, 44, right, 310)
    picture.arrow(left, 84, right, "XADD orders IDMP svc-7 order-1001 * ...")
    picture.box(right + 16, 68, 260, 30, "new: entry and name are written", GOOD)
    picture.arrow(right, 128, left + 190, "1795248000000-0", SOFT)
    picture.cross(left + 178, 128)
    picture.text(left + 82, 124, "connection lost,", colour=BAD)
    picture.text(left + 82, 141, "was it written?", colour=BAD)
    picture.arrow(left, 194, right, "XADD orders IDMP svc-7 order-1001 * ...")
    picture.box(right + 16, 178, 260, 30, "known: nothing is added", GOOD)
    picture.arrow(right, 238, left, "1795248000000-0", GOOD)
    picture.text(right + 16, 270, "stream orders", middle=False, colour=SOFT)
    picture.box(right + 16, 278, 260, 30, "1795248000000-0  cents 4990", GOOD, code=True)
    return picture.save("idempotence-retry.svg")


def window() -> Path:
    """A name is known for exactly IDMP-DURATION from the time of its entry on."""
    picture = Drawing(760, 250, "A name is known for the duration of the window, from the time in its entry's ID on")
    begin, second, floor = 70.0, 4.6, 120.0
    at = {seconds: begin + seconds * second for seconds in (0, 40, 99, 100, 125)}
    picture.box(begin, floor - 32, 100 * second, 32, "order-1001 is known: IDMP-DURATION 100", GOOD)
    picture.line(begin - 20, floor, 735, floor, INK)
    for seconds, what, colour in (
        (0, "XADD", GOOD),
        (40, "again", GOOD),
        (99, "again", GOOD),
        (125, "again", BAD),
    ):
        picture.drop(at[seconds], 52, floor - 34 if seconds <= 100 else floor, colour)
        picture.text(at[seconds], 44, what)
        picture.text(at[seconds], floor + 20, {99: "99.999 s"}.get(seconds, f"{seconds} s"), colour=SOFT)
    picture.text(at[0], floor + 44, "entry", colour=GOOD)
    picture.text(at[0], floor + 61, "1795248000000-0", colour=GOOD, code=True)
    picture.text(at[40], floor + 44, "the same ID", colour=GOOD)
    picture.text(at[99], floor + 44, "the same ID", colour=GOOD)
    picture.text(at[125], floor + 44, "forgotten:", colour=BAD)
    picture.text(at[125], floor + 61, "a second entry", colour=BAD)
    picture.text(
        380, 228, "A duplicate does not prolong it. Deleting the entry does not end it. A restart changes nothing."
    )
    return picture.save("idempotence-window.svg")


def size() -> Path:
    """Each producer has a window of its own, of IDMP-MAXSIZE names; a new one pushes out the oldest."""
    picture = Drawing(760, 190, "Each producer has a window of its own; a new name pushes out the oldest")
    windows = {
        "svc-7": ("order-901", "order-902", "...", "order-999", "order-1000"),
        "svc-8": ("a-1", "a-2"),
    }
    for row, (producer, names) in enumerate(windows.items()):
        y = 60 + 70 * row
        picture.text(16, y + 20, producer, middle=False)
        for column, name in enumerate(names):
            oldest = row == 0 and column == 0
            picture.box(140 + 94 * column, y, 90, 30, name, BAD if oldest else GOOD, code=True)
    picture.text(373, 40, "at most IDMP-MAXSIZE names, here 100", colour=SOFT)
    picture.arrow(136, 75, 76, "goes", BAD, code=False)
    picture.arrow(656, 75, 612, "", GOOD)
    picture.box(660, 60, 90, 30, "order-1001", GOOD, code=True)
    picture.text(705, 50, "comes", colour=GOOD)
    picture.text(336, 150, "another producer's names are not touched", middle=False, colour=SOFT)
    return picture.save("idempotence-size.svg")


def automatic() -> Path:
    """IDMPAUTO makes the name from the fields."""
    picture = Drawing(760, 190, "IDMPAUTO makes the name from fields and values, in whatever order they come")
    rows = (
        ([b"cents", b"4990", b"order", b"1001"], GOOD),
        ([b"order", b"1001", b"cents", b"4990"], GOOD),
        ([b"cents", b"4991", b"order", b"1001"], BAD),
    )
    for row, (fields, colour) in enumerate(rows):
        y = 20 + 50 * row
        picture.box(20, y, 230, 34, b" ".join(fields).decode(), SOFT, code=True)
        picture.arrow(250, y + 17, 330, "hash", SOFT, code=False)
        name = idmpauto_iid(fields).hex()
        picture.box(336, y, 130, 34, f"{name[:4]}...{name[-4:]}", colour, code=True)
    picture.text(490, 50, "the same content: one entry", middle=False, colour=GOOD)
    picture.line(480, 37, 480, 87, GOOD)
    picture.text(490, 92, "(the order of fields does not count)", middle=False, colour=SOFT)
    picture.text(490, 142, "other content: another entry", middle=False, colour=BAD)
    return picture.save("idempotence-auto.svg")


def main() -> int:
    """Draw them all; return an exit code."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for draw in (retry, window, size, automatic):
        print(draw())
    return 0


if __name__ == "__main__":
    sys.exit(main())

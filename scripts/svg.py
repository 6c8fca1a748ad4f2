"""Picture: a deterministic SVG of plain shapes, readable on light and dark pages."""

from html import escape

Colours = tuple[tuple[str, str, str], ...]
# A name, its colour on a light page, its colour on a dark one. The ground is part of the picture: a page may be dark
# where the reader's system is light.
COLOURS: Colours = (
    ("ground", "#ffffff", "#161b22"),
    ("ink", "#1f2328", "#e6edf3"),
    ("faint", "#59636e", "#9198a1"),
    ("rule", "#d1d9e0", "#3d444d"),
    ("blue", "#0969da", "#4493f8"),
    ("pale", "#ddf4ff", "#12304f"),
    ("red", "#cf222e", "#ff7b72"),
    ("green", "#1a7f37", "#3fb950"),
    ("amber", "#9a6700", "#d29922"),
    ("violet", "#8250df", "#ab7df8"),
    ("none", "none", "none"),
)
FONT = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"


def style(colours: Colours) -> str:
    """Return what gives the classes f-NAME and s-NAME a fill and a stroke, on light and on dark pages.

    A browser asks the page around the picture which of the two it is: on the site, its switch.
    """
    light = "".join(f".f-{name}{{fill:{light}}}.s-{name}{{stroke:{light}}}" for name, light, _ in colours)
    dark = "".join(f".f-{name}{{fill:{dark}}}.s-{name}{{stroke:{dark}}}" for name, _, dark in colours)
    return f"<style>{light}@media (prefers-color-scheme:dark){{{dark}}}</style>"


class Picture:
    """Shapes, in the order in which they are drawn; `text()` returns the file.

    title: the text for readers who do not see the picture. Colours are names of COLOURS.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size, self._title, self._shapes = (width, height), title, list[str]()

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "pale",
        edge: str = "none",
        dashes: str = "",
        name: str = "",
    ) -> None:
        """Draw a rectangle with round corners; name: a class by which a test finds it."""
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._shapes.append(
            f'<rect class="f-{fill} s-{edge}{" " + name if name else ""}" x="{x:g}" y="{y:g}" '
            f'width="{width:g}" height="{height:g}" rx="3"{dashed}/>'
        )

    def line(self, *points: tuple[float, float], colour: str = "rule", width: float = 1.5, dashes: str = "") -> None:
        """Draw a line through points."""
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._shapes.append(f'<polyline class="f-none s-{colour}" points="{path}" stroke-width="{width:g}"{dashed}/>')

    def dot(self, x: float, y: float, radius: float, colour: str = "blue") -> None:
        """Draw a filled circle."""
        self._shapes.append(f'<circle class="f-{colour}" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>')

    def cross(self, x: float, y: float, radius: float = 6) -> None:
        """Draw the mark of a cut."""
        for sign in (1, -1):
            self.line((x - radius, y - sign * radius), (x + radius, y + sign * radius), colour="red", width=3)

    def words(
        self,
        x: float,
        y: float,
        text: str,
        colour: str = "ink",
        size: float = 12,
        anchor: str = "start",
        weight: int = 400,
        name: str = "",
        is_above: bool = False,
    ) -> None:
        """Write text on the line y; anchor: start, middle or end; is_above: shapes behind it give way."""
        bold = f' font-weight="{weight}"' if weight != 400 else ""
        halo = ' paint-order="stroke" stroke-width="5" stroke-linejoin="round"' if is_above else ""
        classes = " ".join((f"f-{colour}", *["s-ground"] * is_above, *[name] * bool(name)))
        self._shapes.append(
            f'<text class="{classes}" x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"{bold}{halo}>'
            f"{escape(text, quote=False)}</text>"
        )

    def text(self) -> str:
        """Return the file."""
        width, height = self._size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="{FONT}">'
        )
        ground = f'<rect class="f-ground s-rule" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
        title = f"<title>{escape(self._title, quote=False)}</title>"
        return "\n".join((head, title, style(COLOURS), ground, *self._shapes, "</svg>")) + "\n"

"""Draws the picture of docs/mqtt.md into docs/pictures/, as SVG."""

import sys
from pathlib import Path

from scripts.pictures_idempotence import GOOD, INK, SOFT, Drawing

CELL = 52  # pixels of an entry


def log() -> Path:
    """Devices and subscribers at the gateway, the log that it writes and reads, and another reader of the log."""
    picture = Drawing(
        760, 300, "The gateway stores what devices publish in a log, which subscribers and Spark jobs read"
    )
    for number, name in enumerate(("device d7", "device d8")):
        picture.box(20, 44 + 44 * number, 110, 30, name, SOFT)
    for number, name in enumerate(("backend", "dashboard")):
        picture.box(20, 174 + 44 * number, 110, 30, name, SOFT)
    picture.box(250, 44, 110, 204, "", GOOD)
    picture.text(305, 140, "streamd mqtt")
    picture.text(305, 160, "the gateway", colour=SOFT)
    for y in (59, 103):
        picture.arrow(130, y, 250, "PUBLISH", INK)
    for y in (189, 233):
        picture.arrow(250, y, 130, "PUBLISH", GOOD)
    picture.text(496, 34, "log mqtt, in streamd or Redis", colour=SOFT, middle=False)
    for shard, entries in enumerate((("d7 21.5", "d7 21.6", "d7 21.4"), ("d8 19.0", "d8 19.2"))):
        y = 44 + 44 * shard
        for number, entry in enumerate(entries):
            picture.box(496 + (CELL + 30) * number, y, CELL + 26, 30, entry, GOOD, code=True)
    picture.arrow(360, 82, 490, "XADD", INK)
    picture.arrow(490, 211, 360, "XREAD", GOOD)
    picture.line(490, 211, 520, 211, GOOD)
    picture.line(520, 211, 520, 122, GOOD)
    picture.box(600, 196, 136, 30, "Spark job", SOFT)
    picture.drop(668, 122, 192, GOOD)
    picture.text(668, 246, 'format("streamd")', colour=SOFT, code=True)
    picture.text(380, 280, "every reader has a position of its own; nothing is copied for a subscriber", colour=SOFT)
    return picture.save("mqtt-log.svg")


def main() -> int:
    """Draw it, and say what was written."""
    print(log())
    return 0


if __name__ == "__main__":
    sys.exit(main())

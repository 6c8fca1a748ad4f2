"""Plans on the driver: the entries of a stream, its losses, and the even parts of a range."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from spark_source import ids
from spark_source.connecting.connection import Server, Session
from spark_source.connecting.stream_info import StreamInfo, as_int, as_text, stream_info
from spark_source.errors import StreamdError
from spark_source.reading.offsets import Mark
from spark_source.reading.sketch import Ask, sketch

WALK_ENTRIES = 5_000  # entries that one script or page may walk: some 15 ms of the server's time
FINE_PARTS = 16  # pieces per part of a walk; they are put together evenly when the total is known
COUNT_TRIES = 5  # of a stream that is trimmed while its entries are counted
REPLY_IDS = 1_000  # split points asked for at once
COUNTED_ENTRIES = 1_000  # of so few a sketch would be made of most, so they are counted
PIECES, PIECES_COARSE, PIECE_ENTRIES = 64, 16, 300  # of a sketch, and the least that is worth a piece
HIDDEN = 2  # times as many entries as a sketch shows: then it has missed a burst

Cuts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Loss:
    """Unread entries that are gone: at most `entries` (None: unknown).

    `restart`: the stream is another one than before. `cut_at`: the last ID that counts as read, if entries that had
    been read are gone, too. `unclear`: the position to go on from is unknown.
    """

    text: str
    entries: int | None
    restart: bool
    cut_at: str | None = None
    unclear: bool = False


def find_loss(
    stream: str, mark: Mark, info: StreamInfo | None, holds: Callable[[str], bool] = lambda _: False
) -> Loss | None:
    """Return the loss behind `mark`, None when all is there. `holds` tells whether the stream has an entry ID.

    Entries that were deleted one by one (XDEL) are no loss, since a user wanted that. Entries that were trimmed before
    they were read are a loss, and so is a stream that was deleted or made anew.
    """
    if mark.behind is not None and info is not None and info.added is not None:
        return _loss_in_backlog(stream, mark, info, mark.behind, info.added, holds)
    known = mark.n is not None
    if info is None:
        if not mark.n:
            return None  # it never held anything that we knew of
        return Loss(f"stream {stream} is gone; it was read up to {mark.id}", None, True)
    if _lost_its_newest(mark, info):
        gone = "" if info.added is None else f", {max(1, (mark.n or 0) - info.added)} or more of them are gone"
        behind = min(info.last, mark.id, key=ids.parse)
        return Loss(
            f"stream {stream} lost its newest entries, as after a failover or a power cut: it was read up to {mark.id}"
            f"{gone}, its last entry ID is now {info.last}",
            0,
            False,
            behind,
        )
    if ids.parse(info.last) < ids.parse(mark.id) and mark.n:
        if mark.head is not None and info.first is not None and ids.parse(info.first) >= ids.parse(mark.head):
            return Loss(
                f"stream {stream} lost entries and was given others, with IDs of the time before: it was read up to "
                f"{mark.id}, {mark.n} entries, and it ends at {info.last}, {info.added} entries",
                None,
                False,
                unclear=True,
            )
        return Loss(
            f"stream {stream} was made anew: it was read up to {mark.id}, but its last entry ID is {info.last}",
            None,
            True,
        )
    if info.added is None:
        return None
    if known and info.added < (mark.n or 0):
        return Loss(
            f"stream {stream} was made anew: {mark.n} entries had been added up to offset {mark.id}, "
            f"but it has been given only {info.added}",
            None,
            True,
        )
    head_is_past = info.first is None or ids.parse(info.first) > ids.parse(mark.id)
    if not known or not head_is_past:
        return None
    lost = info.added - (mark.n or 0) - info.length
    if lost < 0:
        return Loss(
            f"stream {stream} was made anew: behind offset {mark.id} it holds more entries than were added", None, True
        )
    if lost:
        now = f"its first entry is now {info.first}" if info.first else "it is empty now"
        return Loss(
            f"stream {stream} was trimmed past offset {mark.id}: {now}, up to {lost} entries are gone", lost, False
        )
    return None


def _loss_in_backlog(
    stream: str, mark: Mark, info: StreamInfo, behind: tuple[str, int], added: int, holds: Callable[[str], bool]
) -> Loss | None:
    """Return the loss like `find_loss`, for a mark with an estimated count, from the first unread entry and the number
    of entries added by then. Entries lost in a failover count only if the mark's own entry is lost, too.
    """
    unread, added_then = behind
    head_is_past = info.first is None or ids.parse(info.first) > ids.parse(mark.id)
    is_shorter = ids.parse(info.last) < ids.parse(mark.id)
    if is_shorter or added < added_then:
        is_older = mark.head is not None and info.first is not None and ids.parse(info.first) < ids.parse(mark.head)
        if head_is_past or is_older:
            text = f"stream {stream} was made anew: it was read up to {mark.id}, its last entry ID is now {info.last}"
            return Loss(text, None, True)
        if not is_shorter and holds(mark.id):
            return None
        text = f"stream {stream} lost its newest entries: it was read up to {mark.id}, and ends at {info.last}"
        return Loss(text, None, False, unclear=True)
    if info.first is not None and ids.parse(info.first) <= ids.parse(unread):
        return None
    lost = max(1, added - (mark.n or 0) - info.length)
    now = f"its first entry is now {info.first}" if info.first else "it is empty now"
    return Loss(f"stream {stream} was trimmed past offset {mark.id}: {now}, about {lost} entries are gone", lost, False)


def _lost_its_newest(mark: Mark, info: StreamInfo) -> bool:
    """Return whether a stream has lost entries at its end that were read, and still has the older ones.

    Another stream with IDs of the same time is told apart by its beginning, or by the number of entries that were added
    before the range that was read last.
    """
    is_shorter = ids.parse(info.last) < ids.parse(mark.id)
    is_fewer = info.added is not None and mark.n is not None and info.added < mark.n
    if not mark.n or info.first is None or ids.parse(info.first) > ids.parse(mark.id) or not (is_shorter or is_fewer):
        return False
    if is_shorter and not is_fewer and info.added is not None:
        return False  # as many as before, and other ones
    if mark.head is not None:
        return ids.parse(info.first) >= ids.parse(mark.head)
    if mark.from_id in (None, ids.SMALLEST) or info.added is None:
        return False
    added_before = mark.n - sum(count for _, count in mark.cuts)
    return ids.parse(info.last) >= ids.parse(mark.from_id or ids.SMALLEST) and info.added >= added_before


class Splitter(Protocol):
    """A way to cut a range into parts."""

    def cut(self, stream: str, start: str, end: str, take: int | None, expected: int, sizes: "PartSizes") -> Cuts:
        """Return the parts of the entries behind `start` up to `end`, at most `take` entries, counted exactly.

        `expected`: their approximate number. The last part ends at `end` unless `take` ended it.
        """

    def estimate(
        self, stream: str, start: str, end: str, take: int | None, expected: int, sizes: "PartSizes"
    ) -> Cuts | None:
        """Return parts as `cut` does, with estimated counts; each ends with an entry, and all hold at most twice
        `take` entries. None where counting is better.
        """

    def about(self, stream: str, start: str, end: str, expected: int) -> int:
        """Return the approximate number of entries in a range; `expected` is a guess."""


@dataclass(frozen=True)
class PartSizes:
    """The number of entries that a part should hold."""

    entries: int
    parts_min: int
    rounded_up: bool = False  # as before: then equal parts may be fewer than `parts_min`

    def size(self, total: int) -> int:
        """Return the size of equal parts of `total` entries; only the last part may be smaller."""
        parts = self.parts(total)
        size = math.ceil(total / parts)
        is_enough = math.ceil(total / size) >= min(total, self.parts_min)
        return size if is_enough or self.rounded_up else total // parts

    def parts(self, total: int) -> int:
        """Return the number of parts for `total` entries."""
        return max(1, min(total, max(self.parts_min, math.ceil(total / self.entries))))


def choose_splitter(server: Server) -> Splitter:
    """Return the best way this server offers: XSPLIT, a script, or reading pages."""
    if server.has_command("XSPLIT"):
        return NativeSplitter(server)
    return WalkSplitter(server, scripted=server.has_command("EVAL"))


def added_up_to(server: Server, splitter: Splitter, stream: str, position: str, info: StreamInfo) -> int | None:
    """Return the number of entries ever added to a stream up to a position. None if unknown: before Redis 7.0, and for
    a position that no entry has reached yet.

    The entries behind the position are counted; if some are trimmed meanwhile, they are counted again.
    """
    for _ in range(COUNT_TRIES):
        if info.added is None or ids.parse(position) > ids.parse(info.last):
            return None
        if position == info.last:
            return info.added
        cuts = splitter.cut(stream, position, info.last, None, info.length, PartSizes(max(1, info.length), 1))
        counted = info.added - sum(entries for _, entries in cuts)
        now = server.patiently(lambda session: stream_info(session, stream), stream)
        if now is None or now.first == info.first:
            return counted
        info = now
    return counted


class NativeSplitter:
    """Cuts by XSPLIT, which costs the server next to nothing."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def cut(self, stream: str, start: str, end: str, take: int | None, expected: int, sizes: PartSizes) -> Cuts:
        def plan(session: Session) -> Cuts:
            return self._cut(session, stream, start, end, take, expected, sizes)

        return self.server.patiently(plan, stream)

    def _cut(
        self, session: Session, stream: str, start: str, end: str, take: int | None, expected: int, sizes: PartSizes
    ) -> Cuts:
        total = None
        if take is not None:
            beyond = self._entry_behind(session, stream, start, end, take, expected)
            if beyond is not None:
                end, total = ids.before(beyond), take
        if total is None:
            total = self._count(session, stream, start, end, max(expected, 1))
        if not total:
            return ()
        size = sizes.size(total)
        firsts = self._split(session, stream, "(" + start, end, size)
        cuts = [(ids.before(first), size) for first in firsts]
        return (*cuts, (end, total - size * len(firsts)))

    def estimate(
        self, stream: str, start: str, end: str, take: int | None, expected: int, sizes: PartSizes
    ) -> Cuts | None:
        """Return None: counting costs less than estimating."""
        return None

    def about(self, stream: str, start: str, end: str, expected: int) -> int:
        return self.server.patiently(lambda session: self._count(session, stream, start, end, max(1, expected)), stream)

    @staticmethod
    def _split(session: Session, stream: str, start: str, end: str, count: int) -> list[str]:
        reply = session.call("XSPLIT", stream, start, end, count)
        assert isinstance(reply, list)
        return [as_text(entry_id) for entry_id in reply]

    def _entry_behind(
        self, session: Session, stream: str, start: str, end: str, take: int, expected: int
    ) -> str | None:
        """Return the ID of the entry behind the first `take` of a range, None when it has no more.

        Asked in coarse steps first: a small `take` of a huge backlog must not make a huge reply.
        """
        step = max(take, expected // REPLY_IDS)
        while True:
            firsts = self._split(session, stream, "(" + start, end, step)
            if step == take:
                return firsts[0] if firsts else None
            if firsts:
                end = firsts[0]
            step = max(take, step // REPLY_IDS)

    def _count(self, session: Session, stream: str, start: str, end: str, expected: int) -> int:
        """Return the number of entries in a range, in two steps of about sqrt(n) IDs each."""
        step = max(1, math.isqrt(expected), expected // REPLY_IDS)
        firsts = self._split(session, stream, "(" + start, end, step)
        behind = firsts[-1] if firsts else self._first(session, stream, "(" + start, end)
        if behind is None:
            return 0
        rest = step
        counted = step * len(firsts) + 1
        while rest > 1:
            rest = max(1, rest // REPLY_IDS)
            steps = self._split(session, stream, behind, end, rest)
            counted += rest * len(steps)
            behind = steps[-1] if steps else behind
        return counted

    @staticmethod
    def _first(session: Session, stream: str, start: str, end: str) -> str | None:
        reply = session.call("XRANGE", stream, start, end, "COUNT", 1)
        return as_text(reply[0][0]) if isinstance(reply, list) and reply and isinstance(reply[0], list) else None


# Nothing is behind the greatest ID there is, and Redis takes no range that starts there: a walk ends with its end.
WALK = """
local start, found, walked = ARGV[1], {}, 0
while walked < tonumber(ARGV[4]) do
  local page = redis.call('XRANGE', KEYS[1], start, ARGV[2], 'COUNT', math.min(ARGV[3], ARGV[4] - walked))
  if #page == 0 then break end
  local last = page[#page][1]
  found[#found + 1] = {last, #page}
  walked = walked + #page
  if last == ARGV[2] then break end
  start = '(' .. last
end
return found
"""


class WalkSplitter:
    """Cuts by a sketch of the range, or by walking it: in a script on the server, or page by page without scripting."""

    def __init__(self, server: Server, scripted: bool) -> None:
        self.server = server
        self.scripted = scripted

    def cut(self, stream: str, start: str, end: str, take: int | None, expected: int, sizes: PartSizes) -> Cuts:
        total = expected if take is None else min(take, expected)
        fine = max(1, min(WALK_ENTRIES, total // (sizes.parts(max(total, 1)) * FINE_PARTS)))
        pieces = list(self._walk(stream, start, end, fine, take))
        total = sum(count for _, count in pieces)
        if not total:
            return ()
        cuts = list(_joined(pieces, total, sizes.parts(total)))
        if take is None or total < take:
            cuts[-1] = (end, cuts[-1][1])
        return tuple(cuts)

    def estimate(
        self, stream: str, start: str, end: str, take: int | None, expected: int, sizes: PartSizes
    ) -> Cuts | None:
        wanted = expected if take is None else min(take, expected)
        if wanted <= COUNTED_ENTRIES:
            return None
        if take is None and sizes.parts(wanted) == 1:
            return ((end, wanted),)
        fine = max(min(PIECES, wanted // PIECE_ENTRIES), 4 * sizes.parts(wanted))
        made = sketch(self._asking(stream), start, end, None if take is None else wanted, fine, PIECES_COARSE)
        pieces = [(f"{piece.last[0]}-{piece.last[1]}", max(1, round(piece.entries()))) for piece in made]
        total = sum(count for _, count in pieces)
        if take is None:
            cuts = list(_joined(pieces, total, sizes.parts(min(expected, total))))
            return (*cuts[:-1], (end, cuts[-1][1])) if cuts else None
        if expected > HIDDEN * total:
            return None
        taken, kept = 0, []
        for piece in pieces:
            if taken + piece[1] > take:
                break
            kept.append(piece)
            taken += piece[1]
        return tuple(_joined(kept, taken, sizes.parts(taken))) if kept else None

    def about(self, stream: str, start: str, end: str, expected: int) -> int:
        pieces = sketch(self._asking(stream), start, end, None, PIECES_COARSE, PIECES_COARSE)
        return round(sum(piece.entries() for piece in pieces))

    def _asking(self, stream: str) -> Ask:
        def ask(questions: Sequence[tuple[str, str, str, int]]) -> list[list[str]]:
            words = [(name, stream, begin, end, "COUNT", count) for name, begin, end, count in questions]
            replies = self.server.patiently(lambda session: session.pipeline(words), stream)
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
            return [[as_text(entry[0]) for entry in reply] for reply in replies]  # type: ignore[union-attr,index]

        return ask

    def _walk(self, stream: str, start: str, end: str, fine: int, take: int | None) -> Iterator[tuple[str, int]]:
        left = take
        while left is None or left > 0:
            budget = WALK_ENTRIES if left is None else min(WALK_ENTRIES, left)
            pieces = self._step(stream, "(" + start, end, fine, budget)
            yield from pieces
            walked = sum(count for _, count in pieces)
            if walked < budget or pieces[-1][0] == end:
                return
            start = pieces[-1][0]
            left = None if left is None else left - walked

    def _step(self, stream: str, start: str, end: str, fine: int, budget: int) -> list[tuple[str, int]]:
        import redis

        if self.scripted:
            try:
                found = self.server.patiently(
                    lambda session: session.call("EVAL", WALK, 1, stream, start, end, fine, budget), stream
                )
                assert isinstance(found, list)
                return [(as_text(piece[0]), as_int(piece[1])) for piece in found if isinstance(piece, list)]
            except (StreamdError, redis.ResponseError) as error:
                if "permission" not in str(error) and "unknown command" not in str(error):
                    raise
                self.scripted = False
        page = self.server.patiently(
            lambda session: session.call("XRANGE", stream, start, end, "COUNT", budget), stream
        )
        assert isinstance(page, list)
        names = [as_text(entry[0]) for entry in page if isinstance(entry, list)]
        return [(piece[-1], len(piece)) for piece in (names[i : i + fine] for i in range(0, len(names), fine))]


def _joined(pieces: list[tuple[str, int]], total: int, parts: int) -> Iterator[tuple[str, int]]:
    """Put fine pieces together to `parts` even ones; each ends where it is nearest to its fair share."""
    made = held = number = 0
    for i, (last, count) in enumerate(pieces):
        made += count
        held += count
        is_last = i + 1 == len(pieces)
        following = 0 if is_last else pieces[i + 1][1]
        if is_last or (number + 1 < parts and made + following / 2 > total * (number + 1) / parts):
            yield last, held
            held = 0
            number += 1


def evened(cuts: Cuts, total: int) -> Cuts:
    """Return estimated parts whose counts add up to the known total."""
    made = sum(count for _, count in cuts)
    ends, before = [], 0
    for i, (last, count) in enumerate(cuts):
        before += count
        ends.append((last, total * before // made if i + 1 < len(cuts) else total))
    return tuple((last, upto - begun) for (last, upto), (_, begun) in zip(ends, [("", 0), *ends], strict=False))


def share(limit: int, backlogs: dict[str, int]) -> dict[str, int]:
    """Return the number of entries that each stream may bring: in proportion to its backlog, at least one."""
    total = sum(backlogs.values())
    if total <= limit:
        return dict(backlogs)
    return {stream: max(1, backlog * limit // total) for stream, backlog in backlogs.items() if backlog}

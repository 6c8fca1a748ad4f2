"""Trimming: removing the oldest entries of a stream, by length or by ID."""

from dataclasses import dataclass

from streamd.stream.entry_id import ID_MAX, format_id
from streamd.stream.references import delete_references, read_by_all_up_to, referenced_between
from streamd.stream.stream import Stream


@dataclass(frozen=True, slots=True)
class Trim:
    """How to trim.

    by: `maxlen` or `minid`; threshold: the length that stays, or the first ID that stays.
    approximate: remove whole nodes alone; limit: stop at the node with which more entries than that would be looked at
    and removed, 0 for no limit.
    references: `keep` or `delete` the groups' references; `acked` trims no entry that is still pending or unread. With
    the last two entries go one by one, so that `approximate` changes nothing; but a trim to a length ends behind the
    first node that may not go whole, even if none of its entries could go, as in Redis.
    repeats: it does again what a journal tells, where nodes may end elsewhere: it ends at the length alone.
    """

    by: str
    threshold: int
    approximate: bool
    limit: int
    references: str
    repeats: bool = False

    def require(self, stream: Stream) -> None:
        """Return if trimming needs no wait for the disk. Raises: Absent."""
        log = stream.log
        if not self._goes_by_entry(stream):
            log.require_trim(self.by, self.threshold)
        elif self.by == "maxlen" and self.references == "delete":
            log.require(0, ID_MAX, max(len(log) - self.threshold, 0))
        else:
            log.require(0, self._end(stream))

    def apply(self, stream: Stream) -> list[bytes]:
        """Trim; return the options of the XTRIM that repeats it exactly, empty if no entry was removed.

        What is not in memory is read at once, since XADD never waits; `require` asks whether there is such.
        """
        if stream.log.may_wait:
            with stream.log.at_once():
                return self._apply(stream)
        return self._apply(stream)

    def _apply(self, stream: Stream) -> list[bytes]:
        by_nodes = self.references == "keep"
        if not by_nodes and self._goes_by_entry(stream):
            return self._apply_each(stream)
        log = stream.log
        if self.by == "maxlen":
            if not log.trim_to_length(self.threshold, by_nodes and self.approximate, self.limit):
                return []
            return [b"MAXLEN", b"=", b"%d" % len(log)]
        if not log.trim_before(self.threshold, by_nodes and self.approximate, self.limit):
            return []
        first = log.first_id
        return [b"MINID", b"=", format_id(self.threshold if first is None else first)]

    def _goes_by_entry(self, stream: Stream) -> bool:
        """Whether the groups or a limit have each entry looked at."""
        return self.references != "keep" and bool(stream.groups or self.limit)

    def _end(self, stream: Stream) -> int:
        """Return the last ID that may be trimmed."""
        end = ID_MAX if self.by == "maxlen" else self.threshold - 1
        return min(end, read_by_all_up_to(stream)) if self.references == "acked" else end

    def _apply_each(self, stream: Stream) -> list[bytes]:
        """Trim entry by entry, with a look at the groups."""
        log = stream.log
        wanted = len(log) - self.threshold if self.by == "maxlen" else len(log)
        end = self._end(stream)
        removed = start = 0
        is_last = False
        while not is_last and removed < wanted and start <= end and (node := log.node_from(start)):
            entries, last_id = node
            if self.limit and removed + entries > self.limit:
                break
            is_last = self.by == "maxlen" and len(log) - entries < self.threshold and not self.repeats
            ids = log.ids_between(start, min(end, last_id))
            start = last_id + 1
            if ids and self.references == "acked":
                pending = referenced_between(stream, ids[0], ids[-1])
                ids = [entry_id for entry_id in ids if entry_id not in pending]
            ids = ids[: wanted - removed]
            removed += len(ids)
            if self.references == "delete":
                delete_references(stream, ids)
            log.delete_many(ids)
            if ids:
                stream.gaps_to = max(stream.gaps_to, ids[-1])
        if not removed:
            return []
        words = b"DELREF" if self.references == "delete" else b"ACKED"
        return [b"MAXLEN", b"=", b"%d" % len(log), words]

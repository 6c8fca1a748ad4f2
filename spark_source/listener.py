"""A listener that logs the progress of queries on streams after each micro-batch."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from spark_source.connecting.connection import Server
from spark_source.errors import StreamdError
from spark_source.noting.markers import COUNTED, batches_key, counted_field, counted_of, stats_key
from spark_source.settings.options import parse_options

log = logging.getLogger("spark_source.listener")


@dataclass(frozen=True)
class SourceFigures:
    """Figures of one stream that a micro-batch read. `lag` is in entries; None for unknown."""

    stream: str
    entries: int
    lag: int | None
    oldest_unread_s: float | None
    lost: int


@dataclass(frozen=True)
class SinkFigures:
    """Figures of one stream that a micro-batch wrote; from inside foreachBatch, of all writes since the last figures.

    `changed`: rows of partitions whose attempts brought different rows, with onRowsChanged=continue; some may be stored
    twice.
    """

    stream: str
    rows: int
    duplicates: int
    retries: int
    waited_ms: int
    changed: int = 0


@dataclass(frozen=True)
class BatchFigures:
    """One micro-batch of one query."""

    query_id: str
    name: str | None
    batch: int
    duration_ms: int
    sources: list[SourceFigures] = field(default_factory=list)
    sinks: list[SinkFigures] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"query {self.name or self.query_id} batch {self.batch} in {self.duration_ms} ms"]
        for source in self.sources:
            text = f"read {source.entries} of {source.stream}"
            if source.lag is not None:
                text += f", lag {source.lag}"
            if source.oldest_unread_s is not None:
                text += f", oldest unread {source.oldest_unread_s:.1f} s"
            if source.lost:
                text += f", LOST {source.lost}"
            parts.append(text)
        for sink in self.sinks:
            more = f"{sink.duplicates} duplicates, {sink.retries} retries, waited {sink.waited_ms} ms"
            if sink.changed:
                more += f", CHANGED {sink.changed}"
            parts.append(f"wrote {sink.rows} to {sink.stream}, {more}")
        return "; ".join(parts)


class StreamdListener(StreamingQueryListener):
    """Hands the figures of each micro-batch to `report`, which by default logs them as a line (level INFO, as
    `spark_source.listener`). Queries of other sources and sinks are ignored.

    `sink` names the streams whose statistics are read as well, separated by commas; `options` name their server, as
    for the sink (`url`, `passwordEnv`, ...).

    Raises: OptionError.
    """

    def __init__(
        self, sink: str | None = None, report: Callable[[BatchFigures], object] | None = None, **options: object
    ) -> None:
        given = {name: str(value) for name, value in options.items()}
        self.streams = parse_options({"stream": sink}).read.streams if sink is not None else ()
        self.server = Server(parse_options(given).connection)
        self.report = report or (lambda figures: log.info("%s", figures))
        self.before: dict[tuple[str, str], dict[str, int]] = {}
        self.refused = False

    def onQueryStarted(self, event: Any) -> None:
        for stream in self.streams:
            self._counted(str(event.id), stream)

    def onQueryProgress(self, event: Any) -> None:
        progress = event.progress
        sources = [figure for source in progress.sources for figure in source_figures(source)]
        written = [self._written(str(progress.id), progress.batchId, stream) for stream in self.streams]
        sinks = [figures for figures in written if figures is not None]
        if sources or sinks:
            duration_ms = dict(progress.durationMs).get("triggerExecution", 0)
            name = progress.name
            self.report(BatchFigures(str(progress.id), name, progress.batchId, duration_ms, sources, sinks))

    def onQueryIdle(self, event: Any) -> None:
        """Report nothing, since an idle query has no unread entries."""

    def onQueryTerminated(self, event: Any) -> None:
        for place in [place for place in self.before if place[0] == str(event.id)]:
            del self.before[place]

    def _written(self, query_id: str, batch: int, stream: str) -> SinkFigures | None:
        before = self.before.get((query_id, stream), {})
        now = self._counted(query_id, stream)
        if not now:
            return None
        # (Spark tells of a batch when it has time. By then the sink may have counted the next one, too.)
        noted = [value for name, value in self._fields(batches_key, stream, query_id) if name == counted_field(batch)]
        figures = [one for value in noted if (one := counted_of(value, batch)) is not None]
        if figures:
            return SinkFigures(stream, *(sum(one[what] for one in figures) for what in COUNTED))
        return SinkFigures(stream, *(now.get(what, 0) - before.get(what, 0) for what in COUNTED))

    def _counted(self, query_id: str, stream: str) -> dict[str, int]:
        """Return the counts of a query's sinks so far; empty when the server answers with an error or not at all."""
        counted: dict[str, int] = {}
        for what, value in self._fields(stats_key, stream, query_id):
            counted[what] = counted.get(what, 0) + int(value)
        if counted:
            self.before[query_id, stream] = counted
        return counted

    def _fields(self, key: Callable[[str], str], stream: str, query_id: str) -> list[tuple[str, bytes]]:
        """Return the fields of a query's sinks in a hash beside a stream, as (name without the sink's, value); none
        when the server answers with an error or not at all, which is logged once.
        """
        try:
            reply = self.server.patiently(lambda session: session.call("HGETALL", key(stream)), stream, 2.0)
        except StreamdError as error:
            if not self.refused:
                log.warning("the statistics of %s are not to be had: %s", stream, error)
            self.refused = True
            return []
        words = [bytes(word) for word in reply] if isinstance(reply, list) else []  # type: ignore[arg-type]
        found = []
        for name, value in zip(words[0::2], words[1::2], strict=True):
            sink, _, rest = name.decode().partition(f"{query_id}:")
            if rest and (not sink or sink.endswith("@")):
                found.append((rest, value))
        return found


def source_figures(source: Any) -> list[SourceFigures]:
    """Return the figures of each stream of a source, from Spark's progress; none for a source of another kind.

    Spark's progress has no place for a Python source's own metrics, so they stand in its offsets.
    """
    read, there = _marks(source.endOffset), _marks(source.latestOffset)
    begin = _marks(source.startOffset)
    found = []
    for stream, mark in read.items():
        new = begin.get(stream) != mark
        latest = there.get(stream, {})
        oldest = latest.get("oldest_ms")
        found.append(
            SourceFigures(
                stream=stream,
                entries=sum(count for _, count in mark.get("cuts", [])) if new else 0,
                lag=latest.get("lag"),
                oldest_unread_s=None if oldest is None else max(0.0, time.time() - oldest / 1000),
                lost=mark.get("lost", 0) if new else 0,
            )
        )
    return found


def _marks(offset: Any) -> dict[str, dict[str, Any]]:
    """Return the marks in an offset of this source, from Spark's progress; {} for an offset of another source."""
    try:
        loaded = json.loads(offset) if isinstance(offset, str) else offset
    except (ValueError, RecursionError):
        return {}
    if not isinstance(loaded, dict) or not all(isinstance(mark, dict) and "id" in mark for mark in loaded.values()):
        return {}
    return loaded

"""Reading the ranges of one task: small ones of several streams are asked for together, and come as one batch."""

import logging
from collections.abc import Generator, Iterator, Sequence

import pyarrow as pa

from spark_source.connecting.bounded import receive
from spark_source.connecting.connection import Server
from spark_source.reading.entry_pages import FIRST_PAGE, LIMIT_BYTES, Converter, read_range
from spark_source.reading.offsets import Range
from spark_source.values.arrow import Page

TOGETHER = 16  # ranges asked for at once: nobody knows yet how large their entries are

log = logging.getLogger("spark_source")


def read_ranges(
    server: Server, parts: Sequence[Range], converter: Converter, page_size: int, fail_on_data_loss: bool
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the entries of ranges as record batches, one range after the other. Raises: as `read_range`."""
    for group in _grouped(parts):
        made: list[pa.RecordBatch] = []
        pages = _whole_pages(server, group) if len(group) > 1 else {}
        for part in group:
            page = pages.pop(part.stream, None)
            if page is not None:
                made.append(converter.convert(part.stream, page))
                continue
            if made:
                yield _joined(made)
                made = []
            yield from read_range(server, part, converter, page_size, fail_on_data_loss)
        if made:
            yield _joined(made)


def _grouped(parts: Sequence[Range]) -> Iterator[list[Range]]:
    """Yield ranges in order: counted ones of few entries together, each other one by itself."""
    group: list[Range] = []
    for part in parts:
        is_small = part.head is None and 0 < part.count <= FIRST_PAGE
        if group and (not is_small or len(group) == TOGETHER):
            yield group
            group = []
        if is_small:
            group.append(part)
        else:
            yield [part]
    if group:
        yield group


def _whole_pages(server: Server, group: list[Range]) -> dict[str, Page]:
    """Return the entries of those ranges that have all that was planned, up to their last entry.

    The others, and those behind an error, are left to `read_range`, which tries again, judges losses and explains.
    """
    found: dict[str, Page] = {}
    parts = {part.stream: part for part in group}
    try:
        for streams in server.by_node(list(parts)):
            found.update(_ask(server, [parts[stream] for stream in streams]))
    except Exception as error:
        log.debug("reading %d small ranges one by one: %s", len(group), error)
    return found


def _ask(server: Server, parts: list[Range]) -> Iterator[tuple[str, Page]]:
    import redis

    with server.session(parts[0].stream) as session:
        for part in parts:
            session.send("XRANGE", part.stream, "(" + part.start, part.end, "COUNT", FIRST_PAGE + 1)
        for part in parts:
            try:
                page, _ = receive(session, LIMIT_BYTES)
            except redis.ResponseError:
                continue
            if isinstance(page, list) and part.count <= len(page) <= FIRST_PAGE and page[-1][0] == part.end.encode():  # type: ignore[index]
                yield part.stream, page  # type: ignore[misc]


def _joined(made: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return several record batches as one: each costs Spark as much as thousands of rows."""
    if len(made) == 1:
        return made[0]
    (batch,) = pa.Table.from_batches(made).combine_chunks().to_batches()
    return batch

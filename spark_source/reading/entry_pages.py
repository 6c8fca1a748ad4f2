"""Reading one planned range on an executor: pages of entries become record batches; a missing entry is an error."""

import logging
from collections.abc import Generator
from typing import Protocol

import pyarrow as pa

from spark_source import ids
from spark_source.connecting.bounded import TooLarge, receive
from spark_source.connecting.connection import Server, Session, Tries
from spark_source.connecting.stream_info import stream_info
from spark_source.errors import DataLoss, StreamMissing
from spark_source.reading.offsets import Range
from spark_source.values.arrow import Page

FIRST_PAGE = 8  # entries; the first page tells how large entries are
GROWTH = 4  # times as many entries as the page before, at most
PAGE_BYTES = 4 << 20  # what a page should hold: large enough for Arrow, small enough for a worker's memory
LIMIT_BYTES = 10 << 20  # where a page is given up and asked for in smaller ones: it stands in memory several times
SHRINK = 8

log = logging.getLogger("spark_source")


class Converter(Protocol):
    """Makes record batches of pages."""

    def convert(self, stream: str, page: Page) -> pa.RecordBatch:
        """Return the page as one record batch."""


def read_range(
    server: Server, part: Range, converter: Converter, page_size: int, fail_on_data_loss: bool
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the entries of a range as record batches, in order.

    A lost connection is made again and reading goes on behind the last entry, until `timeout`.

    Raises: DataLoss when entries that were there at planning are not there any more, unless only single deletions can
        be the reason; StreamdError when the server refuses.
    """
    position, got = part.start, 0
    head = None if part.head is None else max(part.head, part.start, key=ids.parse)
    tries = Tries(server)
    asked = size = min(FIRST_PAGE, page_size)
    while True:
        try:
            with server.session(part.stream) as session:
                _ask(session, part, position, size, head)
                while True:
                    asked = size
                    page, size_bytes = receive(session, LIMIT_BYTES if asked > 1 else None)
                    assert isinstance(page, list)
                    if head is not None and not session.receive():
                        head = _judge_head(session, part, head, fail_on_data_loss)
                    tries.worked()
                    if page:
                        got += len(page)
                        position = page[-1][0].decode()  # type: ignore[index,union-attr]
                        head = head and max(head, position, key=ids.parse)
                    done = len(page) < asked or position == part.end
                    if not done:  # the server works on the next page while this one is converted
                        size = _next_size(page, size_bytes, page_size)  # type: ignore[arg-type]
                        _ask(session, part, position, size, head)
                    try:
                        if page:
                            batch, page = converter.convert(part.stream, page), None  # type: ignore[arg-type]
                            large = batch.nbytes > PAGE_BYTES // 4
                            yield batch
                            del batch
                            if large:  # Arrow would keep what it took, some 20 MB
                                pa.default_memory_pool().release_unused()
                    except BaseException:
                        if not done:
                            session.connection.disconnect()  # a reply nobody reads is on its way
                        raise
                    if done:
                        break
                if part.count:
                    _judge(session, part, got, fail_on_data_loss)
                return
        except TooLarge:
            size = max(1, asked // SHRINK)
        except Exception as error:
            tries.failed(error)
            log.warning("reading %s again behind %s: %s", part.stream, position, error)


def _ask(session: Session, part: Range, position: str, size: int, head: str | None) -> None:
    """Ask for a page, and, if its range was not counted, for an entry up to `head`: while one is left, no entry behind
    `head` was trimmed, and the page is whole.
    """
    session.send("XRANGE", part.stream, "(" + position, part.end, "COUNT", size)
    if head is not None:
        session.send("XRANGE", part.stream, "-", head, "COUNT", 1)


def _next_size(page: Page, size_bytes: int | None, page_size: int) -> int:
    if size_bytes is None:
        size_bytes = sum(len(value) for entry in page for value in entry[1]) + 32 * len(page)
    return max(1, min(page_size, GROWTH * len(page), int(PAGE_BYTES * len(page) / max(size_bytes, 1))))


def _judge(session: Session, part: Range, got: int, fail: bool) -> None:
    """Decide whether a range that came back short, or a stream that ends before its end, is a loss."""
    info = stream_info(session, part.stream)
    is_cut = info is not None and ids.parse(info.last) < ids.parse(part.end)
    is_short = got < part.count and part.head is None
    if info is not None and not is_short and not is_cut:
        return
    missing = max(0, part.count - got)
    many = f"{missing} of {part.count} entries are gone" if part.head is None else f"{got} entries were read"
    where = f"stream {part.stream} from {part.start} to {part.end}: {many}"
    if info is None:
        if part.head is None and not missing:
            return
        text = f"{where}, the stream was deleted"
    elif is_cut:
        text = f"{where}, its newest ones: its last entry ID is now {info.last}, as after a failover or a power cut"
    elif info.first is not None and ids.parse(info.first) <= ids.parse(part.start):
        return  # its head was not trimmed up to here: single entries were deleted, which is somebody's wish
    else:
        text = f"{where}, its first entry is now {info.first or 'none'}"
    _lose(text, info is None, fail)


def _judge_head(session: Session, part: Range, head: str, fail: bool) -> str:
    """Report entries as lost because none up to `head` is left; return the new head."""
    info = stream_info(session, part.stream)
    if info is None:
        return head  # `_judge` will say so
    now = info.first or info.last
    _lose(f"stream {part.stream} from {part.start} to {part.end}: its first entry is now {now}", False, fail)
    return max(head, now, key=ids.parse)


def _lose(text: str, is_gone: bool, fail: bool) -> None:
    if fail:
        raise (StreamMissing if is_gone else DataLoss)(
            f"{text}: keep more of the stream (MAXLEN, MINID), or set failOnDataLoss=false to go on without them"
        )
    log.warning("%s (failOnDataLoss=false)", text)

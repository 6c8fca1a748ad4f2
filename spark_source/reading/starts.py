"""Checks at a query's start: another server or source, or a trigger that may leave entries unread."""

import logging
from collections.abc import Mapping

from spark_source.connecting.stream_info import StreamInfo
from spark_source.errors import DataLoss
from spark_source.reading.matching import names_of
from spark_source.reading.offsets import GONE, Offset
from spark_source.settings.options import ReadOptions

log = logging.getLogger("spark_source")

ONE_BATCH = "with Trigger.AvailableNow the query ends behind it, since Spark before 4.2 runs one batch then"


def refuse_empty_server(begin: Offset, infos: Mapping[str, StreamInfo | None], place: str) -> None:
    """Raise DataLoss when a query that starts again finds none of the streams that it has read.

    One stream that was read to its end and is gone is no loss. If all are gone, it is probably another server, whose
    streams would never be filled.
    """
    read = [name for name, mark in begin.items() if mark.n and mark.state != GONE and (mark.state or mark.from_id)]
    if read and not any(infos.values()):
        are = "is" if len(read) == 1 else "are"
        raise DataLoss(
            f"{_listed(read)} of this query's checkpoint {are} not on {place}, nor is anything else that it reads: "
            "give the url and db of the server that it was made with, or set failOnDataLoss=false to go on with what "
            "comes under these names"
        )


def refuse_other_source(offset: Offset, options: ReadOptions) -> None:
    """Raise DataLoss if the options of a source name none of the streams in its checkpoint.

    Spark tells the sources of a query apart by their place in it: of two that change places, each gets the other's
    checkpoint, and would read its own streams from their start once more. A stream that is gone counts by its name.

    With failOnDataLoss=false nothing is raised, and a warning is logged.
    """
    if not offset or any(map(names_of(options), offset)):
        return
    text = (
        f"{_listed([*offset])} of this source's checkpoint {'is' if len(offset) == 1 else 'are'} not what it reads "
        f"({_given(options)}), as when sources of a query change places between two starts"
    )
    if options.fail_on_data_loss:
        raise DataLoss(
            f"{text}: give each source the place that it had, or set failOnDataLoss=false to read its streams from "
            "their start"
        )
    log.warning("%s: reading its streams from their start (failOnDataLoss=false)", text)


def _given(options: ReadOptions) -> str:
    if options.log is not None:
        return f"log={options.log}"
    if options.pattern is not None:
        return f"{'streamRegex' if options.pattern_is_regex else 'streamPattern'}={options.pattern}"
    return f"stream={','.join(options.streams[:3])}{',..' if len(options.streams) > 3 else ''}"


def _listed(streams: list[str]) -> str:
    more = f" and {len(streams) - 3} more" if len(streams) > 3 else ""
    return f"stream{'s' if len(streams) > 1 else ''} {', '.join(streams[:3])}{more}"


def warn_of_limit(taken: int, waiting: int) -> None:
    """Warn that a limit makes AvailableNow end early, because Spark does not tell the source of that trigger."""
    log.warning(
        "this batch takes %d of about %d entries that wait: %s; start it again until it reads nothing, or leave out "
        "maxEntriesPerTrigger and maxBytesPerTrigger",
        taken,
        waiting,
        ONE_BATCH,
    )


def warn_of_open_batch() -> None:
    """Warn that a batch planned before this start makes AvailableNow end early."""
    log.warning("a batch that had begun is run again as it was planned: %s; start it again to read the rest", ONE_BATCH)

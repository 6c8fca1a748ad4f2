"""Checks at a query's start: another server, or a trigger that may leave entries unread."""

import logging
from collections.abc import Mapping

from spark_source.connecting.stream_info import StreamInfo
from spark_source.errors import DataLoss
from spark_source.reading.offsets import GONE, Offset

log = logging.getLogger("spark_source")

ONE_BATCH = "with Trigger.AvailableNow the query ends behind it, since Spark before 4.2 runs one batch then"


def refuse_empty_server(begin: Offset, infos: Mapping[str, StreamInfo | None], place: str) -> None:
    """Raise DataLoss when a query that starts again finds none of the streams that it has read.

    One stream that was read to its end and is gone is no loss. If all are gone, it is probably another server, whose
    streams would never be filled.
    """
    read = [name for name, mark in begin.items() if mark.n and mark.state != GONE and (mark.state or mark.from_id)]
    if read and not any(infos.values()):
        more = f" and {len(read) - 3} more" if len(read) > 3 else ""
        named = f"stream{'s' if len(read) > 1 else ''} {', '.join(read[:3])}{more}"
        raise DataLoss(
            f"{named} of this query's checkpoint {'is' if len(read) == 1 else 'are'} not on {place}, nor is anything "
            "else that it reads: give the url and db of the server that it was made with, or set failOnDataLoss=false "
            "to go on with what comes under these names"
        )


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

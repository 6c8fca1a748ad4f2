"""The log: lines with a name each, as text for people or as JSON for programs."""

import logging
import sys
from typing import Final

_LOGGER: Final = logging.getLogger("streamd")

LEVELS: Final = {
    "debug": logging.DEBUG,
    "verbose": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "nothing": logging.CRITICAL + 1,
}

# What a line is called that another library has written.
FOREIGN_EVENT: Final = "library"


class EventLog:
    """Writes lines of the log. Each has a name, its *event*, by which programs find it.

    Words of the name are in lower case, with dashes. The text takes arguments by `%`, as that of `logging` does.
    """

    def info(self, event: str, text: str, *arguments: object) -> None:
        """Log something normal."""
        _LOGGER.info(text, *arguments, extra={"event": event})

    def warning(self, event: str, text: str, *arguments: object) -> None:
        """Log something that may need attention."""
        _LOGGER.warning(text, *arguments, extra={"event": event})

    def critical(self, event: str, text: str, *arguments: object) -> None:
        """Log the reason why the server ends."""
        _LOGGER.critical(text, *arguments, extra={"event": event})

    def write(self, event: str, level: int, text: str, *arguments: object) -> None:
        """Log at one of the levels of `logging`."""
        _LOGGER.log(level, text, *arguments, extra={"event": event})

    def exception(self, event: str, text: str, *arguments: object, error: BaseException | None = None) -> None:
        """Log a bug with its traceback: `error`, or the exception that is being handled."""
        _LOGGER.error(text, *arguments, exc_info=error or True, extra={"event": event})


log = EventLog()


class TextFormatter(logging.Formatter):
    """Lines for people: `2026-11-22 06:35:00,123 WARNING event: text`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(event)s: %(message)s", defaults={"event": FOREIGN_EVENT})


class JsonFormatter(logging.Formatter):
    """Lines for programs: an object with time (UTC, ISO 8601), level, event, message and, for a bug, traceback."""

    def __init__(self) -> None:
        super().__init__()
        # A start that logs text need not wait for these.
        from datetime import UTC, datetime
        from json import dumps

        self._dumps, self._utc, self._time_of = dumps, UTC, datetime.fromtimestamp

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        line: dict[str, str] = {
            "time": self._time_of(record.created, self._utc).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", FOREIGN_EVENT),
            "message": record.getMessage(),
        }
        if record.exc_info is not None:
            line["traceback"] = self.formatException(record.exc_info)
        return self._dumps(line, ensure_ascii=False)


def start_logging(level: str, form: str, path: str) -> None:
    """Log to a file, or to the standard error stream if `path` is empty. Raises: OSError.

    A file that was moved away, by logrotate say, is opened anew.
    """
    handler: logging.Handler
    if path:
        from logging.handlers import WatchedFileHandler  # with pickle and more: only where there is a file

        handler = WatchedFileHandler(path, encoding="utf-8", errors="surrogateescape")
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=LEVELS[level], handlers=[handler], force=True)

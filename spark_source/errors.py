"""The errors that a user of the data source sees, one line each."""


class StreamdError(Exception):
    """Base of all errors of the data source; the text is one line with the fault and the remedy."""


class OptionError(StreamdError, ValueError):
    """An option is missing, unknown, or has a wrong value."""


class StreamMissing(StreamdError):
    """A stream that must exist does not."""


class DataLoss(StreamdError):
    """Entries that the query had not read yet are gone."""


class WindowTooSmall(StreamdError):
    """The stream's window is too small to recognise the rows of this query when they are written again."""


class WindowExpired(StreamdError):
    """A half-written batch is older than the window that would recognise its rows."""


class RowsChanged(StreamdError):
    """A write that is repeated brings other rows, or another order, than the attempt or the batch before."""


class OldCheckpoint(StreamdError):
    """A query's checkpoint is older than what its sink has written: a restored backup, or a copy."""


class BadRow(StreamdError):
    """A row or an entry cannot be converted."""


class Unreachable(StreamdError):
    """The server did not answer for as long as `timeout` allows."""


class NotDurable(StreamdError):
    """Writes were not as durable as `durability` asks for within `timeout`."""

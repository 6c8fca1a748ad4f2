"""Names rows in messages, and explains why the server refused one."""

from spark_source.connecting.failures import explained, is_passing
from spark_source.settings.connection_options import ConnectionOptions

ROW_CHARS = 200
VALUE_CHARS = 40


def shown_row(values: dict[str, object]) -> str:
    """Return a row as `{n: 5, v: 'text'}`, shortened."""
    parts = (f"{name}: {_short(repr(value), VALUE_CHARS)}" for name, value in values.items())
    return "{" + _short(", ".join(parts), ROW_CHARS) + "}"


def shown_payload(payload: bytes) -> str:
    """Return encoded fields and values in the form of `shown_row`."""
    words, at = [], 0
    while at < len(payload):
        end = payload.index(b"\r\n", at)
        length = int(payload[at + 1 : end])
        words.append(payload[end + 2 : end + 2 + length].decode(errors="backslashreplace"))
        at = end + length + 4
    return shown_row(dict(zip(words[0::2], words[1::2], strict=True)))


def refusal(error: Exception, payload: bytes, stream: str, options: ConnectionOptions) -> Exception:
    """Return the message for a row that the server answered with an error; a passing failure is returned as it is."""
    if is_passing(error):
        return error
    told = explained(error, options)
    return type(told)(f"{told}; that is of the row {shown_payload(payload)} for stream {stream}")


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."

"""The limit of messages that a session keeps: its default, and how an option and the variable give another one."""

import re
from collections.abc import Mapping
from typing import Final

from streamd.clients.sessions.session_keys import PACKET_ID_MAX

LIMIT: Final = 10_000
VARIABLE: Final = "STREAMD_SESSIONS_LIMIT"
_SHOWN_MAX: Final = 40  # characters of a wrong value


def limit_of_option(option: str, text: str) -> int:
    """Return the limit that an option of the command line gives. Raises: ValueError, with one line that names both."""
    return _parse(f"{option} ", text)


def limit_of_variable(environment: Mapping[str, str]) -> int:
    """Return the limit that the variable gives; without the variable the default. Raises: ValueError, as above."""
    text = environment.get(VARIABLE)
    return LIMIT if text is None else _parse(f"{VARIABLE}=", text)


def _parse(source: str, text: str) -> int:
    # int() also takes blanks, signs, underscores and the digits of other scripts.
    if not re.fullmatch("[0-9]{1,20}", text) or not 1 <= int(text) <= PACKET_ID_MAX:
        shown = text if text.isprintable() and text else repr(text)
        raise ValueError(f"{source}{shown[:_SHOWN_MAX]}: give a number, 1 to {PACKET_ID_MAX}")
    return int(text)

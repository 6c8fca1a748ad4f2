"""Why a link to a primary ends, and what its log line advises."""

from typing import Final

NOT_LINKED: Final = "NOMASTERLINK Can't SYNC while not connected with my master"
IS_PRIMARY: Final = "ERR PSYNC FAILOVER can't be sent to a master."


class LinkFault(Exception):
    """Why a link ends. is_soon: the primary will be ready in a moment, so the next try comes after a second."""

    def __init__(self, reason: str, is_soon: bool = False) -> None:
        super().__init__(reason)
        self.is_soon = is_soon


def advised(text: str) -> str:
    """Return an error of the primary, with what to do about it."""
    text = text.rstrip(".")
    if "NOAUTH" in text:
        return f"{text}; set masteruser and masterauth"
    if "NOPERM" in text:
        return f"{text}; this user needs +ping +psync +replconf"
    return f"{text} (it is a replica itself, or this very server)" if text == NOT_LINKED else text

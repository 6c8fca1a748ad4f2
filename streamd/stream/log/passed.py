"""The sign that a log has passed over entries in which a search finds nothing."""

from typing import Final


class Passed:
    """Entries without a match, which the log did not read. last_id: the ID of the last one."""

    __slots__ = ("last_id",)

    def __init__(self, last_id: int) -> None:
        self.last_id: Final = last_id

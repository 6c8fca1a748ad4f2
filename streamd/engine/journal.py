"""What the engine asks of the journal."""

from typing import Protocol

from streamd.data.records import Record, Run
from streamd.session.client import Client


class Journal(Protocol):
    """Where the effects of a unit go; see streamd.durability.persistence."""

    writers: dict[Client, None]  # who has written something in this turn

    def append_unit(self, records: list[Record | Run]) -> None:
        """Take the effects of one command or one transaction, which stand or fall together."""

    def end_turn(self) -> None:
        """Let the replies of this turn leave, as soon as what it has recorded is as durable as it has to be."""

    def tick(self) -> bool:
        """Do what time demands; return whether more is to be done at once."""

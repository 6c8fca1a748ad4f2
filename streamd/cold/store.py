"""The store of one server's cold segments, and the lists that logs keep their sealed nodes in."""

from streamd.cold.blocks import Blocks
from streamd.cold.cold_list import ColdList
from streamd.stream.log.segment_list import SegmentList


class ColdStore(Blocks):
    """The shelf of a server's logs: segment files below a bounded memory."""

    def new_list(self) -> ColdList:
        """Return an empty list."""
        return ColdList(self)

    def list_of(self, sealed: SegmentList) -> ColdList:
        """Return a list with the segments of another one, which must not be used any more."""
        if isinstance(sealed, ColdList):
            return sealed
        found = ColdList(self)
        found.take(sealed)
        return found

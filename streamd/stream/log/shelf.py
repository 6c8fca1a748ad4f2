"""What keeps the sealed nodes of logs elsewhere than in memory, as a log knows it."""

from contextlib import AbstractContextManager

from streamd.stream.log.segment_list import SegmentList


class Shelf:
    """Makes the lists of sealed segments for logs; `streamd/cold/store.py` has the one that there is."""

    def new_list(self) -> SegmentList:
        """Return an empty list."""
        raise NotImplementedError

    def list_of(self, sealed: SegmentList) -> SegmentList:
        """Return a list with the segments of another one, which must not be used any more."""
        raise NotImplementedError

    def at_once(self) -> AbstractContextManager[None]:
        """Return a context in which nothing raises Absent: what is not in memory is read, and the caller waits."""
        raise NotImplementedError

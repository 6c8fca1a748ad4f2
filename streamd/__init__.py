"""A Redis-protocol stream server, in which an entry that a producer sends again is stored once."""

from streamd.base.version import VERSION as __version__

__all__ = ["__version__"]

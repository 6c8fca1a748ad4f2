"""A Redis-protocol server of streams: a producer can resend an entry, and it is stored once."""

from streamd.base.version import VERSION as __version__

__all__ = ["__version__"]

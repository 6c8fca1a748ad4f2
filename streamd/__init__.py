"""A Redis-protocol server of streams that a retrying producer cannot write to twice."""

from streamd.base.version import VERSION as __version__

__all__ = ["__version__"]

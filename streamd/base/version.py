"""The versions that streamd reports of itself."""

VERSION = "0.1.0"

# The Redis whose commands and replies this server gives: clients read it from HELLO and INFO.
REDIS_VERSION = "8.10.2"


def version_number(version: str) -> int:
    """Return a version as the number that scripts see: 0x00MMmmpp."""
    major, minor, patch = map(int, version.split("."))
    return major << 16 | minor << 8 | patch

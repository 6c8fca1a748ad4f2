"""The versions that streamd reports of itself."""

VERSION = "0.1.0"

# The Redis whose commands and replies this server gives: clients read it from HELLO and INFO.
REDIS_VERSION = "8.10.2"

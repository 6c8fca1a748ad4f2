"""The settings of how long and how many iids a stream remembers: their ranges and defaults."""

from typing import Final

# Source: `stream-idmp-duration`, `stream-idmp-maxsize` and XCFGSET of Redis 8.6, which all share these numbers.
DURATION_S_MIN: Final = 1
DURATION_S_MAX: Final = 86_400
DURATION_S_DEFAULT: Final = 100

MAXSIZE_MIN: Final = 1
MAXSIZE_MAX: Final = 10_000
MAXSIZE_DEFAULT: Final = 100

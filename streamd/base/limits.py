"""The table of limits: every number that bounds something, with its reason."""

from dataclasses import dataclass
from typing import Final

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The bounds of one request."""

    arguments_max: int = 1024 * 1024  # Redis: 2**31 - 1, and as many until 6.2; each takes memory, also an empty one
    bulk_bytes_max: int = 512 * MIB  # Redis: proto-max-bulk-len
    inline_bytes_max: int = 64 * 1024  # Redis: PROTO_INLINE_MAX_SIZE, also for a header line
    request_bytes_max: int = 1024 * MIB  # Redis: client-query-buffer-limit
    authenticated: bool = True  # which of Redis's two error texts a length over its limit is answered with


# Each database is some tables, which the cron visits: so many are 5 MB, and 1.5 ms ten times a second.
DATABASES_MAX = 4_096

# With less memory for streams than this, blocks that are needed at the same time would push each other out.
STREAM_MEMORY_MIN: Final = 16 * 1024 * 1024

# A client that has not said its password may send AUTH or HELLO: nothing of that is long.
BEFORE_AUTH: Final = RequestLimits(arguments_max=10, bulk_bytes_max=16 * 1024, authenticated=False)
AUTHENTICATED: Final = RequestLimits()

# A client that does not read is paused at OUTPUT_PAUSE_BYTES, until it seems to read when it has sent all, and cut at
# OUTPUT_BYTES_MAX.
OUTPUT_PAUSE_BYTES: Final = 1 * MIB
# A pipeline whose replies reach this is interrupted, so that they can leave.
OUTPUT_TURN_BYTES: Final = 1 * MIB
# Nor does one client's pipeline keep the others waiting for longer than this, or for so many requests run as one.
TURN_US: Final = 2_000
TURN_REQUESTS_MAX: Final = 4_096
# So many requests of a pipeline are executed between two looks at the time they took.
REQUESTS_PER_LOOK: Final = 16
# A run of fewer like requests gains nothing by being executed as one.
BATCH_MIN: Final = 3
# Behind a batch that did not take all it was offered, the next is offered so many requests, or a few times as many as
# were taken: what is not taken is looked at again.
BATCH_OFFERED_MIN: Final = 64
# So many keys of a run are looked at by a user's rules at once: of a longer run what does not fit is looked at again.
GUARDED_RUN_MAX: Final = 128
LARGE_REPLY_BYTES: Final = 16 * 1024  # smaller ones are not counted for it
# A client that has sent more in one piece is read again when others had their turn: uvloop reads 250 KB at once, and
# goes on 31 times as long as that is filled.
INPUT_TURN_BYTES: Final = 200 * 1024
# A blocked client may send so much more before it is no longer read.
INPUT_WAITING_BYTES_MAX: Final = 1 * MIB
OUTPUT_BYTES_MAX: Final = 1024 * MIB
# A client that has ended its side is waited for while it reads replies, and cut when it reads nothing for so long.
OUTPUT_STALLED_MS_MAX: Final = 60_000
# Where no reply can leave after the end of input (TLS), what was received is answered for so long without a turn of
# others: the longest that one client may hold them up.
LAST_TURN_US: Final = 20_000
# Redis's client-output-buffer-limit for subscribers: 32mb hard, 8mb for 60 seconds.
OUTPUT_PUBSUB_BYTES_MAX: Final = 32 * MIB
# Redis's hard client-output-buffer-limit for replicas. Here all replicas share these bytes.
OUTPUT_REPLICAS_BYTES_MAX: Final = 256 * MIB

# A reply of more items (entries, pending entries, keys, fields) is made in slices: it takes a millisecond or more.
SLICED_ITEMS_MIN: Final = 4_000

# One slice of background work (sweeping, rewriting, expiring), or of a long reply: short beside a network round trip.
SLICE_US: Final = 1_000

# Loading at a start is given so long between two turns of those who ask meanwhile: nobody is served before its end.
LOAD_TURN_US = 5_000

# A replica that catches up takes what its primary has sent in pieces of this size, and for so long between two turns of
# its own clients. (uvloop reads up to 8 MB at once, which are seconds of work.)
LINK_PIECE_BYTES: Final = 16 * 1024
LINK_TURN_US: Final = 5_000

# A stop waits so long for replies to leave.
STOP_S = 3.0

# A search for entries that a filter lets through: a client has to ask again for the rest, so not too short.
SEARCH_SLICE_US: Final = 5_000

# An interrupted script goes on for so long between two turns of the others.
SCRIPT_SLICE_MS: Final = 5

# A reader that goes through entries on the disk has so many bytes of the next ones read at once: one after the other
# they would take it eight times as long.
READ_AHEAD_BYTES: Final = 9 * 32 * 1024
READ_AHEAD_BLOCKS: Final = 8
# So many reads of blocks for requests wait in the thread's queue; requests beyond wait in line.
BLOCK_JOBS_MAX: Final = 1_024

# Segments that are read often keep their RESP: enough for 300,000 entries of 64 bytes.
SEGMENT_CACHE_BYTES_MAX = 32 * MIB

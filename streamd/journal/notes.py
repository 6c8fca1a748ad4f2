"""Notes: the journal's records of state for which Redis has no command.

| note | words behind the name (and, in the file, the number of the database) |
|---|---|
| DEFAULTS | seconds, iids: the settings of streams created from here on |
| XIDMPSETTINGS | key, seconds, iids: the settings of this stream; its window is left as it is |
| XIDMP | CFGSET, key, DURATION, seconds, MAXSIZE, iids: the same, and all iids are forgotten |
| XIDMPIID | key, pid, iid, entry ID: remembered as the youngest; the entry itself is deleted |
| XIDMPDUPLICATE | key, count: the number of duplicates so far; of several notes in a turn the last one is written |
| XIDMPDUPLICATE | key, count, entry ID, time: the same; the iid that is recorded next, for this entry ID, is ahead of
  the clock, and was recorded at that time (Unix ms). (Versions that know no such times go by the first two words.) |
| XGROUPSEEN | key, group, consumer, time when it was seen, time when it was active (Unix ms; -1 never) |
| XGROUPPENDING | key, group, consumer, entry ID, delivery time, delivery count: pending, though deleted |
| XGROUPFILTER | key, group, field, MQTT, GLOB or EQ, pattern: the filter of a group |
| XIDMPCOUNTERS | key, iids added, iids that were duplicates |
| HISTORY | role (`told` of a replica that was told to take another data set, and has not reached its primary since),
  replication ID, offset, hash of the last frame, earlier ID, first offset that is not of it,
  origin, `alone` if replicas have asked for that data set and none has taken it; on a replica host and port of its
  primary: where this state stands in its history. In the unit of each frame of a replica |
"""

from typing import Final

DEFAULTS: Final = b"DEFAULTS"

# Where the state stands in its replication history.
HISTORY: Final = b"HISTORY"

# The first word of the records that change functions, which are in no database.
FUNCTION: Final = b"FUNCTION"

# The first words of records that become lines, because Redis has no such command.
NOTES: Final = frozenset((
    DEFAULTS, HISTORY, b"XIDMPSETTINGS", b"XIDMP", b"XIDMPIID", b"XIDMPDUPLICATE", b"XIDMPCOUNTERS", b"XGROUPSEEN",
    b"XGROUPPENDING", b"XGROUPFILTER",
))  # fmt: skip

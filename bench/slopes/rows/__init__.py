"""The rows of all commands: preparation, request, and permitted growth of its time."""

from bench.slopes.rows.collections import COLLECTIONS
from bench.slopes.rows.keyspace import KEYSPACE
from bench.slopes.rows.server import SERVER
from bench.slopes.rows.sorted_sets import SORTED_SETS
from bench.slopes.rows.streams import STREAMS
from bench.slopes.rows.strings import STRINGS

ROWS = (*STRINGS, *COLLECTIONS, *SORTED_SETS, *STREAMS, *KEYSPACE, *SERVER)

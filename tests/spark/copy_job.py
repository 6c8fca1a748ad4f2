"""A driver of its own, for a test to kill: copies stream `in` to `out`; arguments are both ports and the checkpoint."""

import sys
from pathlib import Path

from tests.spark.sessions import copy, finish, quiet_session, read_stream

if __name__ == "__main__":
    read_port, write_port, checkpoint = sys.argv[1:]
    session = quiet_session()
    rows = read_stream(session, int(read_port), maxEntriesPerTrigger=1000, entriesPerPartition=500)
    finish(copy(session, int(write_port), Path(checkpoint), rows.selectExpr("id AS source", "fields")))

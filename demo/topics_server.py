"""The server of the demo of topics: its clock says what it is told, so that a day of devices takes seconds."""

import argparse
import sys
from pathlib import Path

from streamd.base.clock import ManualClock
from streamd.testing import EmbeddedServer


def main() -> int:
    """Serve with a journal; each line of the standard input is a Unix time in milliseconds to go to."""
    parser = argparse.ArgumentParser(prog="python -m demo.topics_server")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--now-ms", type=int, required=True)
    options = parser.parse_args()
    options.dir.mkdir(exist_ok=True)
    server = EmbeddedServer(ManualClock(options.now_ms), port=options.port, appendonly=True, dir=str(options.dir))
    with server:
        print(f"Ready to accept connections on 127.0.0.1:{server.port}", flush=True)
        for line in sys.stdin:
            server.advance(milliseconds=int(line) - server.clock.now_ms())
    return 0


if __name__ == "__main__":
    sys.exit(main())

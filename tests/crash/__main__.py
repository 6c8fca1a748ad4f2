"""The long form of the crash tests: `python -m tests.crash --kills 500`."""

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.crash.kill_loop import KillLoop
from tests.crash.test_journal_cut import test_a_long_journal_cut_anywhere_starts_with_what_is_whole as cut_everywhere
from tests.crash.test_power_loss import check as cut_power


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash")
    parser.add_argument("--kills", type=int, default=500, help="how often to kill the server (default: 500)")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with (default: 1)")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    faults = 0
    for policy, kills in (("always", arguments.kills), ("everysec", arguments.kills // 5)):
        with tempfile.TemporaryDirectory() as directory:
            result = KillLoop(Path(directory), policy, arguments.seed).run(kills)
        print(f"appendfsync {policy}: {result}", flush=True)
        faults += result.faults
    for seed in range(1_000, 1_000 + 2 * arguments.kills):
        cut_power(seed, "always" if seed % 2 else "everysec")
    print(f"power losses: {2 * arguments.kills}, all started with what had to be there", flush=True)
    cut_everywhere(97)
    print("a journal of 1 MB cut at every 97th byte: all started with what was whole", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the servers are stopped")

"""The long form of the crash tests: `python -m tests.crash --kills 500`."""

import argparse
import logging
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from streamd.journal.recovery import DamagedError
from tests.crash.cut_loop import CutLoop
from tests.crash.kill_loop import KillLoop, Result, undisturbed
from tests.crash.test_power_loss import check as check_power_loss

# A start takes the longer the more there is to load: then a new stream begins.
KILLS_PER_STREAM = 50
# At 500 kills; with fewer the places lie further apart, so that everything takes less time in the same measure.
CUT_STEP = 97
CUT_STEP_KILLS = 500
PROGRESS_S = 5
EXIT_INTERRUPTED = 128 + signal.SIGINT


class Progress:
    """Prints how far something is that is done `total` times: now and then, and at the end."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._began = self._printed = time.monotonic()

    def step(self) -> None:
        """Count one more."""
        self._done += 1
        now = time.monotonic()
        if self._done == self._total or now >= self._printed + PROGRESS_S:
            self._printed = now
            print(f"{self._what}: {self._done} of {self._total}, {now - self._began:.0f} s", flush=True)


def kill(policy: str, kills: int, seed: int) -> Result:
    """Kill servers so often, some of them on the same stream."""
    total = Result()
    progress = Progress(f"appendfsync {policy}, kill -9", kills)
    while total.kills < kills:
        with directory() as path:
            try:
                result = KillLoop(path / "data", policy, seed + total.kills).run(
                    min(KILLS_PER_STREAM, kills - total.kills), progress.step
                )
            except AssertionError:
                keep(path)
                raise
            if result.faults:
                keep(path)
            total += result
    print(f"appendfsync {policy}: {total}", flush=True)
    return total


@contextmanager
def directory() -> Iterator[Path]:
    """Lend a directory; it is gone behind the block."""
    with undisturbed():
        lent = tempfile.TemporaryDirectory(prefix="streamd-crash-")
    with lent as path:
        yield Path(path)


def keep(path: Path) -> None:
    """Copy what shows a fault: the journal, as it was afterwards, and the server's log."""
    kept = tempfile.mkdtemp(prefix="streamd-fault-")
    shutil.copytree(path, kept, dirs_exist_ok=True)
    print(f"kept for looking at: {kept}", flush=True)


def cut_power(times: int, seed: int) -> list[str]:
    """Cut the power so often; return what was wrong."""
    progress = Progress("power losses in simulation", times)
    wrong = []
    for number in range(seed, seed + times):
        try:
            check_power_loss(number, "always" if number % 2 else "everysec")
        except (AssertionError, DamagedError) as error:
            wrong.append(f"power loss with seed {number}: {error!r}")
        progress.step()
    return wrong


def cut_journal(step: int) -> tuple[int, list[str]]:
    """Cut a journal of 1 MB at every `step`-th byte; return how often, and where something else was loaded."""
    progress: Progress | None = None

    def on_cut(number: int, of: int) -> None:
        nonlocal progress
        progress = progress or Progress(f"1 MB of journal cut at every {step}th byte", of)
        progress.step()

    cuts, different = CutLoop().run(step, on_cut)
    return cuts, [f"cut at byte {length}: not what was whole there" for length in different]


def run(kills: int, seed: int) -> int:
    """Do all of it, print what was counted; return the exit code."""
    began = time.monotonic()
    always, everysec = kill("always", kills, seed), kill("everysec", kills // 5, seed)
    total = always + everysec
    losses = cut_power(2 * kills, 1_000 * seed)
    cuts, different = cut_journal(max(CUT_STEP, CUT_STEP * CUT_STEP_KILLS // kills))
    for line in losses + different:
        print(line)
    print(
        f"kills {total.kills}, lost {total.lost}, duplicated {total.duplicated}, wrong ID {total.wrong_id}, "
        f"order violations {total.order_violations}, altered {total.altered}, "
        f"unacknowledged again {total.unacknowledged_again}; power losses {2 * kills}, wrong {len(losses)}; "
        f"cuts {cuts}, silently different {len(different)}; {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return 1 if total.faults or losses or different else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash")
    parser.add_argument("--kills", type=int, default=500, help="how often to kill the server (default: 500)")
    parser.add_argument("--seed", type=int, default=1, help="what chance begins with (default: 1)")
    arguments = parser.parse_args()
    if arguments.kills < 1:
        parser.error("--kills must be at least 1")
    logging.disable(logging.WARNING)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, interrupted)
    try:
        return run(arguments.kills, arguments.seed)
    except KeyboardInterrupt:
        print("interrupted: the servers are killed, their directories removed", file=sys.stderr)
        return EXIT_INTERRUPTED


def interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Begin to stop; a second Ctrl-C is not to keep the servers from being killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

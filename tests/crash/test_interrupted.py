"""Ctrl-C in the long form of the crash tests: no server goes on, nothing is left in the temporary directory."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest


@pytest.mark.parametrize("seed", range(3))
def test_an_interrupted_run_leaves_nothing_behind(tmp_path, seed):
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash", "--kills", "500"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,  # a group of its own, which all get Ctrl-C as from a terminal
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        until = time.monotonic() + 30
        while not list(tmp_path.glob("streamd-crash-*/data/appendonlydir/*.manifest")):
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(random.Random(seed).uniform(0, 1.5))
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert err == "interrupted: the servers are killed, their directories removed\n"
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(ProcessLookupError):  # nobody is left in the group
            os.killpg(process.pid, 0)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

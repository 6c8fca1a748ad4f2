"""CPU time and memory of processes and of their children."""

import os
import subprocess
import sys
import time

import pytest

from streamd.clients.mqtt.bench import processes

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="there is no /proc")

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
THEN_WAIT = BURN + "print(1, flush=True); input()"
CHILD = f"import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {THEN_WAIT!r}])\n"


def test_cpu_of_a_process_grows_with_its_work():
    before = processes.cpu_s([os.getpid()])
    until_s = time.process_time() + 0.1
    while time.process_time() < until_s:
        pass
    assert processes.cpu_s([os.getpid()]) - before >= 0.09


@pytest.mark.parametrize("is_alive", [True, False])
def test_children_count_also_when_they_have_ended(is_alive):
    program = CHILD + ("" if is_alive else "child.wait(); print(2, flush=True); ") + "input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        if not is_alive:
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "2\n"
        try:
            assert processes.cpu_s([process.pid]) >= 0.29
            assert processes.anonymous_bytes([process.pid]) > 1_000_000
        finally:
            process.stdin.write("\n\n")
            process.stdin.close()


def test_without_processes_there_is_nothing_to_tell():
    assert (processes.cpu_s([]), processes.anonymous_bytes([])) == (0, 0)


def test_a_process_that_does_not_exist_is_said_to_be_gone():
    with pytest.raises(processes.ProcessGone, match="process 999999999 does not exist"):
        processes.cpu_s([os.getpid(), 999_999_999])


def test_a_child_that_has_ended_has_no_memory_and_is_no_fault():
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has taken notice yet
        assert processes.anonymous_bytes([os.getpid()]) > 1_000_000
        with pytest.raises(processes.ProcessGone, match="its memory cannot be read"):
            processes.anonymous_bytes([child.pid])

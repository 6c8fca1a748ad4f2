"""The child processes of the demo, each with a log file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


class ChildFailed(Exception):
    """A process that ended early, or did not do its work in time; the text ends with its log."""


class Child:
    """`python -m module arguments...` in a session of its own, so that Ctrl-C reaches the demo alone.

    program: the words of another program, which gets the arguments in place of a module.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.log = log
        words = program or (sys.executable, "-m", module)
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*words, *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    def check(self) -> None:
        """Do nothing while the process runs or after it has ended well.

        Raises: ChildFailed.
        """
        if self.process.poll() not in (None, 0):
            raise ChildFailed(f"{self.name} ended with exit code {self.process.returncode}:\n{self.last_lines()}")

    @property
    def ended(self) -> bool:
        """Return whether the process has ended."""
        return self.process.poll() is not None

    def send_line(self) -> None:
        """Write an empty line to the process's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def last_lines(self, count: int = 15) -> str:
        """Return the end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def wait_for(self, text: str, seconds: float) -> str:
        """Return the first line of the log that contains a text.

        Raises: ChildFailed.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for line in self.log.read_text(errors="replace").splitlines(keepends=True):
                if text in line and line.endswith("\n"):
                    return line.rstrip()
            if self.ended:
                break
            time.sleep(0.02)
        raise ChildFailed(f"{self.name} did not say {text!r}:\n{self.last_lines()}")

    def kill(self) -> None:
        """Kill the process and all its children (of a Spark driver: Python, the JVM, the workers) with signal 9."""
        if not self.ended:
            os.killpg(self.process.pid, signal.SIGKILL)
        # Spark's workers have a process group of their own; the session is what they share with the driver.
        while members := session_members(self.process.pid):
            for pid in members:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.poll()
        self.process.wait()

    def stop(self, seconds: float = 5.0) -> None:
        """Ask the process to end, and kill what still runs of it after a while."""
        if not self.ended:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
        self.kill()


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back: a process that is started, but not noted yet, would be left behind."""
    held: list[int] = []
    before = {one: signal.signal(one, lambda number, _: held.append(number)) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        signal.raise_signal(held[0])


def session_members(session: int) -> list[int]:
    """Return the running processes of a session; none without /proc."""
    members = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The fields behind the name, which stands in brackets: state, parent, process group, session.
            state, _, _, its_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(its_session) == session and state != "Z":
            members.append(int(entry.name))
    return members

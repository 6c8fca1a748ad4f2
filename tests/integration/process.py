"""A streamd process for tests, started on a free port and ended by its pid."""

import subprocess
import sys
from pathlib import Path
from types import TracebackType

PURE = """
import sys
for name in ("hiredis", "uvloop", "lz4", "lz4.block", "lz4.frame"):
    sys.modules[name] = None
from streamd.cli import main
sys.exit(main())
"""


class ServerProcess:
    """`python -m streamd serve` as a child; `port` is what its banner says.

    pure: run as if none of the libraries with native code that streamd can do without were installed. source: the
    directory of another version's source.
    """

    def __init__(self, directory: Path, *options: str, pure: bool = False, source: Path | None = None) -> None:
        start = ["-c", PURE] if pure else ["-m", "streamd"]
        words = [sys.executable, *start, "serve", "--port", "0", "--dir", str(directory), *options]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=source)
        self.banner: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.banner.append(line.rstrip("\n"))
            if line.startswith("Ready to accept connections"):
                break
        else:
            raise AssertionError(f"the server ended at its start: {self.process.communicate()[1]}")
        number = self.banner[-1].rpartition(":")[2]
        self.port = int(number) if number.isdigit() else 0  # a server on a Unix socket alone has none

    def stop(self) -> tuple[int, str, str]:
        """Ask the server to stop; return exit code, further output and errors."""
        if self.process.poll() is None:
            self.process.terminate()
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def run_cli(*words: str, source: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python -m streamd` with these words to its end; `source` is the directory of another version's source."""
    command = [sys.executable, "-m", "streamd", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, cwd=source)

"""`make newcomer`: what a newcomer waits for: a server, and the demo with Spark, in a fresh clone.

The clone is made twice: the first one fills pip's cache, which takes as long as the downloads do; the second one is
measured. Both are removed at the end.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER_S_MAX = 30
SPARK_S_MAX = 180


def main() -> int:
    """Print both times; return 1 if one of them is longer than promised."""
    with tempfile.TemporaryDirectory(prefix="streamd-newcomer-") as place:
        began = time.monotonic()
        run(clone(Path(place) / "first"), "make", "set-up")
        print(f"downloads and the first set-up: {time.monotonic() - began:.0f} s", flush=True)
        shutil.rmtree(Path(place) / "first")
        began = time.monotonic()
        directory = clone(Path(place) / "second")
        serve(directory)
        server_s = time.monotonic() - began
        print(f"from the clone to a server that answers: {server_s:.0f} s (at most {SERVER_S_MAX})", flush=True)
        run(directory, "make", "demo")
        spark_s = time.monotonic() - began
        print(f"from the clone to the end of the demo with Spark: {spark_s:.0f} s (at most {SPARK_S_MAX})", flush=True)
    return 0 if server_s <= SERVER_S_MAX and spark_s <= SPARK_S_MAX else 1


def clone(directory: Path) -> Path:
    """Clone the repository and return the clone."""
    run(ROOT, "git", "clone", "-q", str(ROOT), str(directory))
    return directory


def serve(directory: Path) -> None:
    """Start a server, wait until it answers, and stop it. Raises: SystemExit."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["make", "serve", f"ARGS=--port {port} --dir {directory.parent / 'data'}"]
    make = subprocess.Popen(words, cwd=directory, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        while make.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                    client.sendall(b"PING\r\n")
                    if client.recv(7) == b"+PONG\r\n":
                        return
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"newcomer: make serve ended with {make.returncode}")
    finally:
        if make.poll() is None:
            os.killpg(make.pid, signal.SIGINT)
        make.wait(timeout=30)


def run(directory: Path, *words: str) -> None:
    """Run a program to its end, and show its output if it fails. Raises: SystemExit."""
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"newcomer: {' '.join(words)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())

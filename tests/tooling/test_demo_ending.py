"""How a demo ends: by Ctrl-C, also by two, and on a terminal whose encoding lacks letters."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BEGIN = """
import os, signal, time
from rich.console import Console
from demo.ending import tell
console = Console()
"""


def run(story: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Tell a story, a function of that name, in a process of its own."""
    program = f"{BEGIN}{story}\nraise SystemExit(tell(story, console, 'test', 'files', False))"
    words = [sys.executable, "-c", program]
    return subprocess.run(words, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, timeout=60)


def test_a_second_ctrl_c_does_not_disturb_the_end():
    done = run("""
def story(directory):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        console.print("ended the server")
""")
    assert (done.returncode, done.stderr) == (130, b"")
    assert done.stdout == b"ended the server\ninterrupted; everything that was started has ended\n"


def test_an_encoding_that_lacks_a_letter_does_not_end_it():
    story = "def story(directory): console.print('orders \\u2013 enriched\\u2026'); return 0"
    done = run(story, PYTHONIOENCODING="iso-8859-1")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"orders ? enriched?\n", b"")

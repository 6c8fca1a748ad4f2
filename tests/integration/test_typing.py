"""What users import has types: mypy takes a program of theirs, and finds each mistake that is planted in it."""

import re
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("typed_program.py")


def errors(directory: Path, text: str) -> list[int]:
    program = directory / "program.py"
    program.write_text(text)
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(directory / "cache"), str(program)]
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    return [int(line) for line in re.findall(r"^program\.py:(\d+): error: ", done.stdout, re.MULTILINE)]


def test_a_users_program_passes_strict_mypy_and_its_mistakes_are_found(tmp_path: Path):
    text = PROGRAM.read_text()
    assert errors(tmp_path, text) == []
    planted = [number for number, line in enumerate(text.splitlines(), 1) if "# wrong: " in line]
    assert len(planted) > 5
    assert errors(tmp_path, text.replace("# wrong: ", "")) == planted

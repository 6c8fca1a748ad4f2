"""`make fuzz`: looks for inputs that break a promise, the time shared by all targets, one line printed for each.

By coverage with atheris, or without (`--blind`): so it is where atheris cannot be had, and on the compiled form, whose
code atheris cannot watch (`make fuzz-compiled`). `make fuzz SECONDS=600 ARGS="decoder journal"` runs two targets.

A target is a file in `targets/`: its first line is the promise that no input breaks, `check(data)` tries one input, and
`WORDS` are the parts of inputs. It needs a directory in `corpus/`, and a line in test_corpus.py with a bug that its
corpus finds. An input that broke a promise stays in the corpus, under a name that says what it is.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path("tests") / "fuzz"  # `make` stands in the root, and what is printed can be typed there
CORPUS = HERE / "corpus"
# What a run has found to be of interest; the next run begins with it. What failed goes to the corpus instead.
FOUND = Path("build") / "fuzz"
TARGETS = sorted(path.stem for path in (Path(__file__).parent / "targets").glob("*.py") if path.stem != "__init__")
# A process is started, and the corpus tried, before the time of a target begins; and one input may hang.
GRACE_S = 60


def install() -> bool:
    """Return whether atheris can be imported, having it installed if need be."""
    if importlib.util.find_spec("atheris") is None:
        words = [sys.executable, "-m", "pip", "install", "-q", "-c", "constraints.txt", "atheris"]
        subprocess.run(words, capture_output=True, check=False)
        importlib.invalidate_caches()
    return importlib.util.find_spec("atheris") is not None


def run(target: str, seconds: int, is_blind: bool) -> bool:
    """Look for new inputs of a target for so many seconds and print a line; return whether none failed."""
    new, known = FOUND / target, CORPUS / target
    new.mkdir(parents=True, exist_ok=True)
    known.mkdir(parents=True, exist_ok=True)
    how = ["--blind" if is_blind else "--for", str(seconds), str(new), str(known)]
    words = [sys.executable, "-m", "tests.fuzz.one", target, *how]
    log = FOUND / f"{target}.log"
    try:
        with log.open("wb") as file:
            ended = subprocess.run(words, stdout=file, stderr=file, check=False, timeout=seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        print(f"{target:<14} FAILED: it did not end after its {seconds} s; see {log}", flush=True)
        return False
    text = log.read_text(errors="replace")
    runs = re.search(r"number_of_executed_units: (\d+)", text)
    places = re.findall(r"cov: (\d+)", text)
    reached = f"{places[-1] if places else 0} places reached"
    said = f"{runs[1] if runs else 0} inputs in {seconds} s, {'without coverage' if is_blind else reached}"
    if ended.returncode == 0:
        print(f"{target:<14} {said}, none failed", flush=True)
        return True
    failed = re.search(r"Test unit written to (\S+)", text)
    again = f"; `.venv/bin/python -m tests.fuzz.one {target} {failed[1]}` repeats it" if failed else ""
    print(f"{target:<14} {said}, FAILED: the traceback is in {log}{again}", flush=True)
    return False


def main() -> int:
    """Return 0 if no input failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="in all")
    parser.add_argument("--blind", action="store_true", help="without coverage")
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS], help=f"some of {', '.join(TARGETS)}")
    args = parser.parse_args()
    is_blind = args.blind or os.environ.get("STREAMD_TEST_FORM") == "compiled"
    if not is_blind and not install():
        print("fuzz: atheris cannot be installed here; known inputs are changed at random", flush=True)
        is_blind = True
    targets = args.targets or TARGETS
    share = max(1, args.seconds // len(targets))
    results = [run(target, share, is_blind) for target in targets]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

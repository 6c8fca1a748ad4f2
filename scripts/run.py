"""`make serve`, `make mqtt` and the demos: runs a module in the compiled form, where that was built and is up to date.

python scripts/run.py MODULE [words]: elsewhere in the pure form, and one line says why.
"""

import os
import sys

import compiled


def main(words: list[str]) -> None:
    """Become the program. Relative paths among the words are those of this directory."""
    python = sys.executable
    reason = compiled.not_ready()
    if reason:
        print(f"streamd: pure form; {reason}", file=sys.stderr, flush=True)
    else:
        python = str(compiled.PYTHON.absolute())
        os.environ["PYTHONSAFEPATH"] = "1"  # not the source in this directory
    os.execv(python, [python, "-m", *words])


if __name__ == "__main__":
    main(sys.argv[1:])

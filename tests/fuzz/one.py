"""One target in a process of its own: tries the files it is given, or looks for inputs for some seconds.

python -m tests.fuzz.one TARGET FILE ...
python -m tests.fuzz.one TARGET --for SECONDS NEW KNOWN    (directories: what is found, and the corpus)
python -m tests.fuzz.one TARGET --blind SECONDS NEW KNOWN    (without coverage, see mutation.py)
"""

import importlib
import logging
import random
import sys
from pathlib import Path

from tests.fuzz.mutation import look


def main() -> None:
    """Do what the command line says; an input that fails ends it with the traceback."""
    name, *rest = sys.argv[1:]
    if rest[:1] not in (["--for"], ["--blind"]):
        module = importlib.import_module(f"tests.fuzz.targets.{name}")
        for path in rest:
            module.check(Path(path).read_bytes())
        return
    logging.disable(logging.WARNING)  # of each journal that is cut there would be a line
    if rest[0] == "--blind":
        module = importlib.import_module(f"tests.fuzz.targets.{name}")
        seed = random.SystemRandom().getrandbits(32)
        sys.exit(0 if look(module, Path(rest[3]), int(rest[1]), seed) else 1)
    import atheris

    with atheris.instrument_imports(include=["streamd"]):
        module = importlib.import_module(f"tests.fuzz.targets.{name}")
    seconds, new, known = rest[1:]
    words = Path(new).with_suffix(".dict")
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in module.WORDS)
    words.write_text("".join(f'"{word}"\n' for word in escaped))
    options = [f"-max_total_time={seconds}", f"-dict={words}", f"-artifact_prefix={known}/"]
    options += ["-timeout=25", "-max_len=4096", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, new, known], module.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

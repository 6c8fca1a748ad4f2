"""One target in a process of its own: tries the files it is given, or looks for inputs for some seconds.

python -m tests.fuzz.one TARGET FILE ...
python -m tests.fuzz.one TARGET --for SECONDS NEW KNOWN    (directories: what is found, and the corpus)
"""

import importlib
import logging
import sys
from pathlib import Path


def main() -> None:
    """Do what the command line says; an input that fails ends it with the traceback."""
    name, *rest = sys.argv[1:]
    if rest[:1] != ["--for"]:
        module = importlib.import_module(f"tests.fuzz.targets.{name}")
        for path in rest:
            module.check(Path(path).read_bytes())
        return
    import atheris

    logging.disable(logging.WARNING)  # of each journal that is cut there would be a line
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

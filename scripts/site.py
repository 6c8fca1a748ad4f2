"""`make docs` and `make docs-serve`: the site of documents, by mkdocs in a separate environment."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import set_up

VENV = Path(".venv-docs")
PYTHON = VENV / "bin" / "python"
READY = VENV / ".ready"
PLACE = Path("build") / "site"
# mkdocs-material 9.8 is maintained until May 2027, and prints with each build that it then is not.
QUIET = {"NO_MKDOCS_2_WARNING": "1"}


def main(words: list[str]) -> int:
    """Build the site, or with `serve` show it on this machine; return mkdocs's exit code."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    # streamd itself is found on the path: a second editable install would write the same .egg-info.
    wanted = [*project["dependencies"], *project["optional-dependencies"]["docs"]]
    made_from = "\n".join((*wanted, set_up.CONSTRAINTS.read_text(encoding="utf-8")))
    if not (READY.is_file() and READY.read_text(encoding="utf-8") == made_from and set_up.works(PYTHON)):
        make(wanted)
        READY.write_text(made_from, encoding="utf-8")
    if words[:1] == ["serve"]:
        command = ["serve", "--strict", *words[1:]]
    else:
        command = ["build", "--strict", "--clean", *words]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), **QUIET}
    code = subprocess.run([PYTHON, "-m", "mkdocs", *command], env=environment, check=False).returncode
    if code == 0 and command[0] == "build":
        print(f"docs: {PLACE}/index.html")
    return code


def make(wanted: list[str]) -> None:
    """Make the virtual environment. Raises: SystemExit, when it cannot be made."""
    print("set-up: installing mkdocs-material into .venv-docs", flush=True)
    READY.unlink(missing_ok=True)
    if not set_up.works(PYTHON) and not set_up.create(VENV):
        raise SystemExit(set_up.NO_PIP.format(python=sys.executable))
    set_up.install(PYTHON, set_up.CONSTRAINTS, *wanted)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

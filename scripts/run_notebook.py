"""`make notebook`: runs a notebook from top to bottom, as CI does; `--save` keeps the outputs in the file."""

import argparse
import importlib.util
import sys
from pathlib import Path

import set_up

CELL_S = 600  # the first use of Spark takes a while on a small machine


def main() -> int:
    """Return 0 when every cell ran, 1 with the error of the first one that failed."""
    parser = argparse.ArgumentParser(prog="scripts/run_notebook.py")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--save", action="store_true", help="write the outputs into the notebook")
    arguments = parser.parse_args()
    if not all(importlib.util.find_spec(name) for name in ("nbclient", "ipykernel", "matplotlib")):
        set_up.install(set_up.PYTHON, set_up.CONSTRAINTS, "--no-build-isolation", "-e", ".[notebook]")
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.read(arguments.notebook, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=CELL_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(arguments.notebook.parent)}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    cells = sum(cell.cell_type == "code" for cell in notebook.cells)
    print(f"{arguments.notebook}: {cells} cells ran")
    if arguments.save:
        for cell in notebook.cells:
            cell.metadata.pop("execution", None)  # when it ran: another diff each time
            if cell.cell_type == "code":
                cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
        nbformat.write(notebook, arguments.notebook)
    return 0


if __name__ == "__main__":
    sys.exit(main())

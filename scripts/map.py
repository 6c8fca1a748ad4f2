"""Prints the rooms of the server from its code: their purposes, sizes and imports."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "streamd"


def room_of(module: str) -> str:
    """Return the room of a module: `streamd.net.server` is in net; `streamd.cli` and each client library are rooms."""
    parts = module.split(".")
    if parts[1:2] == ["clients"] and len(parts) > 2:
        return f"clients/{parts[2]}"
    return parts[1] if len(parts) > 1 else "__init__"


def modules_imported(path: Path) -> set[str]:
    """Return the modules of the server that a file imports, wherever in the file that stands; names of types aside,
    which are imported by no run.
    """
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    of_types = [one for one in tree.body if isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING"]
    for node in ast.walk(ast.Module([one for one in tree.body if one not in of_types], [])):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "streamd":
            for name in node.names:
                inner = ROOT.parent.joinpath(*node.module.split("."), name.name)
                is_module = inner.is_dir() or inner.with_suffix(".py").is_file()
                found.add(f"{node.module}.{name.name}" if is_module else node.module)
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names if name.name.split(".")[0] == "streamd")
    return found


def imports(path: Path) -> set[str]:
    """Return the rooms that a file imports."""
    return {room_of(module) for module in modules_imported(path)}


def floors(below: dict[str, set[str]]) -> dict[str, int]:
    """Return the floor of each room: one above the highest that it imports. Raises: ValueError for a circle."""
    known: dict[str, int] = {}
    while len(known) < len(below):
        ready = [room for room in below if room not in known and below[room] <= known.keys()]
        if not ready:
            raise ValueError(f"a circle among {', '.join(sorted(below.keys() - known.keys()))}")
        for room in ready:
            known[room] = max((known[other] + 1 for other in below[room]), default=0)
    return known


def summary(path: Path) -> str:
    """Return the first sentence of a file's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0].replace("\n", " ")


def main() -> None:
    """Print the map, the top floor first."""
    files: dict[str, list[Path]] = defaultdict(list)
    below: dict[str, set[str]] = defaultdict(set)
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        room = room_of(".".join(parts))
        if room in ("__init__", "__main__", "clients/__init__"):
            continue
        files[room].append(path)
        below[room] |= imports(path) - {room, "__init__"}
    level = floors(below)
    total = 0
    for room in sorted(files, key=lambda room: (-level[room], room)):
        paths = files[room]
        lines = sum(len(path.read_text().splitlines()) for path in paths)
        total += lines if not room.startswith("clients") else 0
        first = next((path for path in paths if path.name == "__init__.py"), paths[0])
        print(f"{level[room]:2}  {room:22} {len(paths):3} files {lines:6} lines  {summary(first)}")
        print(f"    {'':22} imports {', '.join(sorted(below[room], key=lambda one: (-level[one], one))) or 'nothing'}")
    print(f"\n{total:,} lines, without those of the clients")


if __name__ == "__main__":
    main()

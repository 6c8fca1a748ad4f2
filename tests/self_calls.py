"""Functions that may call themselves, in one step or by way of others, as far as the source shows."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_APPLIES = {"map", "filter", "sorted"}  # what they are given they call
_LATER = {"spawn", "_spawn", "create_task", "send"}  # what they are given runs in a later turn of the loop


class _Module(ast.NodeVisitor):
    """The functions of a module with what each calls, its classes with their bases, and what it imports."""

    def __init__(self, name, tree):
        self.name = name
        self.imports = {}
        self.calls = {}  # by the function's name within the module: the expressions that are called
        self.bases = {}  # by the class's name: the names of its bases
        self.own_kind = set()  # classes that hold others of their own kind, as annotations say
        self._scope = []
        self.visit(tree)

    def visit_ImportFrom(self, node):
        for one in node.names:
            self.imports[one.asname or one.name] = f"{node.module}.{one.name}"

    def visit_ClassDef(self, node):
        self._scope.append(node.name)
        name = ".".join(self._scope)
        self.bases[name] = [ast.unparse(one).partition("[")[0] for one in node.bases]
        named = {node.name, *(one.rpartition(".")[2] for one in self.bases[name])} - {
            "Generic",
            "NamedTuple",
            "Exception",
        }
        held = [one.annotation for one in ast.walk(node) if isinstance(one, ast.AnnAssign)]
        if any(named & set(_names(one)) for one in held):
            self.own_kind.add(name)
        self.generic_visit(node)
        self._scope.pop()

    def visit_FunctionDef(self, node):
        self._scope.append(node.name)
        self.calls[".".join(self._scope)] = []
        self.generic_visit(node)
        self._scope.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Call(self, node):
        is_later = isinstance(node.func, ast.Attribute) and node.func.attr in _LATER
        if is_later and any(isinstance(one, ast.Call | ast.Lambda) for one in node.args):
            self.visit(node.func)
            return
        within = [".".join(self._scope[:end]) for end in range(len(self._scope), 0, -1)]
        function = next((one for one in within if one in self.calls), None)
        if function is not None:
            self.calls[function].append(node.func)
            if isinstance(node.func, ast.Name) and node.func.id in _APPLIES:
                self.calls[function] += [one for one in node.args if isinstance(one, ast.Name | ast.Attribute)]
        self.generic_visit(node)


def _names(annotation) -> Iterator[str]:
    for one in ast.walk(annotation):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield from one.value.replace("[", " ").replace("]", " ").replace("|", " ").replace(",", " ").split()


class CallGraph:
    """Which function of some packages may call which, by their full names."""

    def __init__(self, sources: Iterable[tuple[str, str]]):
        """Read modules: the name of each, and its text."""
        self._modules = [_Module(name, ast.parse(text)) for name, text in sources]
        self._functions = {f"{one.name}.{function}" for one in self._modules for function in one.calls}
        self._classes = {f"{one.name}.{name}" for one in self._modules for name in one.bases}
        self._bases, self._heirs = defaultdict(set), defaultdict(set)
        for module in self._modules:
            for name, bases in module.bases.items():
                for base in bases:
                    full = module.imports.get(base, f"{module.name}.{base}")
                    self._bases[f"{module.name}.{name}"].add(full)
                    self._heirs[full].add(f"{module.name}.{name}")
        self.calls = {
            f"{module.name}.{function}": set(chain.from_iterable(self._called(module, function, one) for one in called))
            for module in self._modules
            for function, called in module.calls.items()
        }

    def _called(self, module, function, called) -> Iterator[str]:
        scopes = [f"{module.name}.{function}"]
        while scopes[-1] != module.name:
            scopes.append(scopes[-1].rpartition(".")[0])
        owner = next((one for one in scopes if one in self._classes), None)
        if isinstance(called, ast.Name):
            names = [f"{one}.{called.id}" for one in scopes if one not in self._classes]
            names.append(module.imports.get(called.id, ""))
            yield from self._known([one for one in names if one in self._functions or one in self._classes][:1])
        elif isinstance(called, ast.Attribute):
            yield from self._of_attribute(module, function, owner, called)

    def _known(self, names):
        for one in names:
            if one in self._classes:
                one += ".__init__"
            if one in self._functions:
                yield one

    def _of_attribute(self, module, function, owner, called):
        text = ast.unparse(called.value)
        if owner is not None and text in ("self", "cls"):
            family = self._all(owner, self._bases) | self._all(owner, self._heirs)
        elif owner is not None and text == "super()":
            family = self._all(owner, self._bases) - {owner}
        elif text in module.imports:
            family = {module.imports[text]}
        else:
            family = {f"{module.name}.{text}"}
            # The same method of another, in a class that holds such: a tree.
            is_same = function.endswith(f".{called.attr}")
            if owner is not None and is_same and owner.removeprefix(f"{module.name}.") in module.own_kind:
                family |= self._all(owner, self._bases) | self._all(owner, self._heirs)
        return self._known(f"{one}.{called.attr}" for one in family)

    def _all(self, start, edges):
        found, todo = set(), [start]
        while todo:
            one = todo.pop()
            if one not in found:
                found.add(one)
                todo += edges[one]
        return found

    def circles(self) -> list[list[str]]:
        """Return the groups of functions that reach each other, and those that call themselves."""
        reached = {one: self._reached(one) for one in self.calls}
        groups = {
            tuple(sorted(other for other in reached[one] if one in reached.get(other, ())))
            for one in self.calls
            if one in reached[one]
        }
        return [list(one) for one in sorted(groups)]

    def _reached(self, start):
        found, todo = set(), list(self.calls[start])
        while todo:
            one = todo.pop()
            if one not in found:
                found.add(one)
                todo += self.calls.get(one, ())
        return found


def read(root: Path, packages: Iterable[str]) -> list[tuple[str, str]]:
    """Return the modules of packages: their names and texts."""
    return [
        (".".join(path.relative_to(root).with_suffix("").parts), path.read_text("utf-8"))
        for package in packages
        for path in sorted((root / package).rglob("*.py"))
    ]

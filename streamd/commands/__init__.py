"""The commands: one file for each stream command, one for each family of the others.

Importing this package declares them all: every module in it is imported, so that a new command is a new file.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

"""The commands: one file for each stream command, one for each family of the others.

Importing this package declares them all: every module in it is imported, so that a new command is a new file.
"""

from importlib import import_module
from pkgutil import walk_packages

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)

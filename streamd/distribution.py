"""The name under which this package is installed: on the package index `streamd` is another project."""

from typing import Final

NAME: Final = "streamd-server"


def install_line(extra: str) -> str:
    """Return the command that adds an extra, for messages: with this package there, pip takes it from no index."""
    return f"pip install '{NAME}[{extra}]'"

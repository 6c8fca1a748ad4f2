"""The version of this package, as it is installed."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from streamd.distribution import NAME


def _installed() -> str:
    try:
        return version(NAME)
    except PackageNotFoundError:  # a checkout on the path
        return "unknown"


VERSION: Final = _installed()

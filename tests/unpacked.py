"""Unpacks archives on every Python that streamd runs on."""

import tarfile
from pathlib import Path


def unpack(archive: tarfile.TarFile, directory: Path) -> None:
    """Unpack all of an archive of ours or of a distribution; the filter against evil ones came with Python 3.11.4."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(directory, filter="data")
    else:
        archive.extractall(directory)

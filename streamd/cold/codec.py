"""How the body of a block is stored: as it is, or compressed by zstd where that is installed."""

from functools import cache
from typing import Any, Final

# (1 is for lz4 over uncompressed columns. Segments have their texts lz4'd already where that pays.)
AS_SEALED: Final = 0
ZSTD: Final = 2

# Of what a higher level saves on blocks of 32 KB, nothing is worth its time.
_LEVEL: Final = 1


@cache
def _library() -> Any:
    """Return the module of zstd, imported when the first block needs it; None if it is not installed."""
    try:
        import zstandard
    except ImportError:
        return None
    return zstandard


def is_available(codec: int) -> bool:
    """Return whether bodies of this codec can be read and written here."""
    return codec == AS_SEALED or (codec == ZSTD and _library() is not None)


def compress(body: bytes) -> bytes:
    """Return a body under zstd, which must be available."""
    compressor: Any = _library().ZstdCompressor(level=_LEVEL, write_content_size=True)
    data: bytes = compressor.compress(body)
    return data


def decompress(data: bytes, raw_bytes: int) -> bytes:
    """Return the body of `raw_bytes` bytes of its form under zstd, which must be available. Raises: ValueError."""
    zstandard = _library()
    try:
        if zstandard.frame_content_size(data) != raw_bytes:
            raise ValueError("another length is expected")
        body: bytes = zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise ValueError(str(error))
    return body

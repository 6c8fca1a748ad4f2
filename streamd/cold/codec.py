"""How the body of a block is stored: as it is, or compressed by zstd where that is installed."""

from typing import Any, Final

try:
    import zstandard
except ImportError:
    zstandard = None  # type: ignore[assignment]

# (1 is for lz4 over uncompressed columns. Segments have their texts lz4'd already where that pays.)
AS_SEALED: Final = 0
ZSTD: Final = 2

# Of what a higher level saves on blocks of 32 KB, nothing is worth its time.
_LEVEL: Final = 1


def is_available(codec: int) -> bool:
    """Return whether bodies of this codec can be read and written here."""
    return codec == AS_SEALED or (codec == ZSTD and zstandard is not None)


def compress(body: bytes) -> bytes:
    """Return a body under zstd, which must be available."""
    compressor: Any = zstandard.ZstdCompressor(level=_LEVEL, write_content_size=True)
    data: bytes = compressor.compress(body)
    return data


def decompress(data: bytes, raw_bytes: int) -> bytes:
    """Return the body of `raw_bytes` bytes of its form under zstd, which must be available. Raises: ValueError."""
    try:
        if zstandard.frame_content_size(data) != raw_bytes:
            raise ValueError("another length is expected")
        body: bytes = zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise ValueError(str(error))
    return body

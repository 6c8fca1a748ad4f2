"""The limits that decide which form a window has, set for a test."""

import pytest

from streamd.idmp import table


def limit_windows(patch: pytest.MonkeyPatch, always: int, indexed: int, crowd: int, repack: int) -> None:
    """Set how many iids are always packed, how many windows are indexed, and how much is packed anew at once."""
    patch.setattr(table, "PACKED_ALWAYS_MAX", always)
    patch.setattr(table, "INDEXED_WINDOWS_MAX", indexed)
    patch.setattr(table, "INDEXED_IN_A_CROWD_MAX", crowd)
    patch.setattr(table, "REPACK_MAX", repack)
    patch.setattr(table, "_DISTINCT_MIN", 0)

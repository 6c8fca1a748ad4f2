"""The limits that decide which form a window has, set for a test."""

import importlib

import pytest

from streamd.idmp import table, windows
from streamd.idmp.ring import RingWindow

# The forms that a table uses: the longest window of bytes, that in a crowd of so many larger windows, the most larger
# windows of a table in which dicts stay dicts, the longest window that becomes bytes again, the ring.
FORMS = {
    "bytes, then dicts": (4, 4, 1000, 1000, 2, "ring"),
    "dicts, then rings, soon a crowd": (2, 6, 2, 1, 3, "ring"),
    "two dicts": (1, 1, 1000, 2, 1, "ring"),
    "dicts alone": (0, 0, 1000, 1000, 0, "ring"),
    "rings alone": (0, 0, 1000, 0, 0, "ring"),
    "bytes, then native rings": (4, 4, 1000, 0, 2, "native_ring"),
    "native rings alone": (0, 0, 1000, 0, 0, "native_ring"),
    "bytes alone": (99, 99, 1000, 0, 99, "ring"),
}


def limit_windows(patch: pytest.MonkeyPatch, form: str) -> None:
    """Have tables use the windows of one of FORMS."""
    few, few_in_a_crowd, crowd, in_dicts, again, ring = FORMS[form]
    patch.setattr(table, "FEW_MAX", few)
    patch.setattr(table, "FEW_IN_A_CROWD_MAX", few_in_a_crowd)
    patch.setattr(table, "CROWD", crowd)
    patch.setattr(table, "_DISTINCT_MIN", 0)
    for module in (table, windows):
        patch.setattr(module, "DICTS_MAX", in_dicts)
    patch.setattr(windows, "FEW_AGAIN_MAX", again)
    if ring == "native_ring":
        pytest.importorskip("librt")
        patch.setattr(windows, "ring_of", importlib.import_module("streamd.idmp.native_ring").NativeRingWindow)
    else:
        patch.setattr(windows, "ring_of", RingWindow)

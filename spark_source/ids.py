"""Entry IDs on the client: text `ms-seq`, and the ID just before or behind one."""

SEQ_MAX = 2**64 - 1
SMALLEST = "0-0"


def parse(entry_id: str | bytes) -> tuple[int, int]:
    """Return (ms, seq) of an entry ID `ms-seq`."""
    text = entry_id.decode() if isinstance(entry_id, bytes) else entry_id
    ms, _, seq = text.partition("-")
    return int(ms), int(seq or 0)


def before(entry_id: str | bytes) -> str:
    """Return the greatest ID smaller than this one; for 0-0 itself."""
    ms, seq = parse(entry_id)
    if seq:
        return f"{ms}-{seq - 1}"
    return f"{ms - 1}-{SEQ_MAX}" if ms else SMALLEST

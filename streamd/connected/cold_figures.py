"""The figures of streams that are larger than memory, for INFO and the metrics."""

from streamd.connected.state import State


def cold_figures(state: State) -> dict[str, int | str]:
    """Return the figures by their names in INFO; none while all entries are in memory."""
    store = state.cold
    if store is None:
        return {}
    files, cache = store.files, store.cache
    return {
        "cold_files": len(files.sizes),
        "cold_bytes": sum([*files.sizes.values()]),
        "cold_block_hits": cache.hits,
        "cold_block_misses": cache.misses,
        "cold_cache_bytes": cache.bytes,
        "cold_unwritten_bytes": store.hot_bytes,
        "cold_notes_bytes": store.notebook.bytes,
        "cold_rows_passed": store.notebook.rows_passed,
        "cold_damaged_blocks": store.damaged,
        "cold_waiting_clients": state.blocked.reading,
        "cold_move_failed": " ".join(store.move_failed.split()),
    }

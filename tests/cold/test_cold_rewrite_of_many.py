"""A rewrite of a hundred million entries in files does not look at each block of them."""

from streamd.cold.cold_list import ColdList
from streamd.cold.files import SegmentFile
from streamd.cold.format import Header
from streamd.cold.index import Footer
from streamd.journal.cold_records import NamedFiles
from streamd.journal.dump import dump_key
from streamd.stream.stream import Stream
from tests.cold.cold_restartable import ColdRestartable

FILES, ROWS, ENTRIES = 160, 20, 31_250
SINCE_MS = 1_600_000_000_000


def test_a_piece_is_a_range_or_some_hundred_deletions():
    store = ColdRestartable().store
    stream = Stream(100, 100, 100, store)
    cold = stream.log.put_on(store)
    assert isinstance(cold, ColdList)
    ms = SINCE_MS
    for number in range(1, FILES + 1):
        footer = Footer()
        for _ in range(ROWS):
            footer.add_stand_in(ms << 64, (ms + ENTRIES - 1) << 64, ENTRIES)
            ms += ENTRIES
        file = SegmentFile(number, store.files.path(number), Header(number, 1, 0), 77, 1 << 26, footer.index())
        store.files.add_missing(file)
        cold.add_rows(file, 0, ROWS)
    assert len(stream) == 100_000_000
    stream.log.delete_recorded([(SINCE_MS + 1000 * number) << 64 for number in range(100_000)])
    for number in range(5):
        stream.append((ms + number) << 64, [b"f", b"v"])

    pieces = [data for _, data in dump_key(0, b"s", stream, None, NamedFiles(store))]

    assert sum(b"RANGE" in piece for piece in pieces) == FILES
    assert sum(b"GONE" in piece for piece in pieces) == 200
    assert sum(piece.count(b"XADD") for piece in pieces) == 5
    assert len(pieces) < FILES + 200 + 10
    assert max(map(len, pieces)) < 4_000

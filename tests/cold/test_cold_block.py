"""Blocks of segment files: what was gathered comes back in every slot, and nothing else passes for it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamd.cold import block, codec
from streamd.cold.block import BLOCK_BYTES, Block, check, decode, grouped, stored_bytes
from streamd.cold.codec import AS_SEALED, ZSTD
from streamd.cold.format import Damaged, Unreadable
from tests.cold.sealed import MS, entry_id, every_kind, sealed, stored
from tests.examples import examples

SALT, OFFSET, PATH = 0x1234_5678_9ABC_DEF0, 4096, "dir/appendonly.aof.7.seg"
KINDS = dict(every_kind())


def written(segments, kind=AS_SEALED, salt=SALT, offset=OFFSET):
    return b"".join(Block(segments, kind).placed(salt, offset))


def read(data, size=None, salt=SALT, offset=OFFSET):
    check(data, len(data) if size is None else size, salt, offset, PATH)
    return decode(data, offset, PATH)


@pytest.mark.parametrize("kind", KINDS)
def test_segments_come_back_equal_in_every_slot(kind):
    segments = KINDS[kind]
    found = read(written(segments))
    assert [stored(one) for one in found] == [stored(one) for one in segments]
    for one, other in zip(found, segments, strict=True):
        assert one.live is None
        assert one.live_count == other.count
        assert (one.encoded, one.noted, one.noted_by, one.touched) == (None, b"", None, 0)
        assert one.memory_bytes == other.memory_bytes
        assert one.encode(0, one.count) == other.encode(0, other.count)
        assert one.entries(0, one.count) == other.entries(0, other.count)
        assert list(one.ids(0, one.count)) == list(other.ids(0, other.count))


@pytest.mark.parametrize("kind", KINDS)
def test_compressed_blocks_have_the_same_entries(kind):
    pytest.importorskip("zstandard")
    segments = KINDS[kind]
    found = read(written(segments, ZSTD))
    for one, other in zip(found, segments, strict=True):
        assert (one.raw_bytes, one.used, one.last_id) == (0, other.used, other.last_id)
        assert one.encode(0, one.count) == other.encode(0, other.count)
    assert len(written(segments, ZSTD)) <= len(written(segments)) + sum(one.raw_bytes for one in segments)


texts = st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"name", b"a" * 300, bytes(70_000)]))
steps = st.tuples(st.integers(0, 1 << 20), st.integers(0, 3), st.lists(texts, min_size=2, max_size=6))


@given(st.lists(steps, min_size=1, max_size=30), st.integers(1, 12), st.sampled_from([AS_SEALED, ZSTD]))
@settings(max_examples=examples(100), deadline=None)
def test_segments_of_any_entries_come_back(entries, node, form):
    if not codec.is_available(form):
        form = AS_SEALED
    at, made = entry_id(MS), []
    for further, seq, fields in entries:
        at = at + seq + 1 if not further % 3 else ((at >> 64) + further << 64) + seq
        made.append((at, fields[: len(fields) // 2 * 2]))
    segments = sealed([*made, (at + (1 << 64), [b"f", b"v"])], node)
    if segments:
        found = read(written(segments, form))
        if form == AS_SEALED:
            assert [*map(stored, found)] == [*map(stored, segments)]
        for one, other in zip(found, segments, strict=True):
            assert one.encode(0, one.count) == other.encode(0, other.count)


def test_the_kinds_are_all_there_is():
    segments = [one for kind in KINDS.values() for one in kind]
    seen = {
        (type(one.fields), type(one.lengths), type(one.texts), one.raw_bytes > 0, one.stamps is None, one.seqs is None)
        for one in segments
    }
    for number in range(6):
        assert len({one[number] for one in seen}) == 2
    sizes = {len(one.stamps) // one.count for one in segments if one.stamps is not None}
    sizes |= {10 * len(one.seqs) // one.count for one in segments if one.seqs is not None}
    assert {1, 2, 8, 10, 20, 40} <= sizes


def test_deletions_are_no_part_of_a_block():
    segments = sealed([(entry_id(MS + n), [b"f", b"%d" % n]) for n in range(10)])
    before = written(segments)
    segments[0].delete(2, 5)
    assert written(segments) == before
    assert read(before)[0].live_count == 10


def test_names_are_there_once_and_shared():
    segments = sealed([(entry_id(MS + n), [b"a-long-name", b"%d" % (n % 10)]) for n in range(200)])
    data = written(segments)
    assert data.count(b"a-long-name") == 1
    found = read(data)
    assert len({id(one.fields) for one in found}) == 1
    assert len({id(one.lengths) for one in found}) == 1


FLIPPED = ["alike, a ms each", "names differ, both", "compressed, one ms", "rewritten"]


@pytest.mark.parametrize("kind", FLIPPED)
@pytest.mark.parametrize("form", [AS_SEALED, ZSTD])
def test_each_flipped_byte_is_refused_with_file_and_offset(kind, form):
    if not codec.is_available(form):
        pytest.skip("zstandard is not installed")
    data = written(KINDS[kind], form)
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 1 << at % 8
        with pytest.raises(Damaged, match=f"^{PATH} is damaged at offset 4096: "):
            read(bytes(bad))


@pytest.mark.parametrize("kind", FLIPPED)
def test_each_cut_is_refused(kind):
    data = written(KINDS[kind])
    for length in range(len(data)):
        for size in (length, len(data)):
            with pytest.raises(Damaged):
                read(data[:length], size)


def test_a_block_of_another_place_or_file_is_refused():
    data = written(FIRST)
    read(data)
    for salt, offset in ((SALT, OFFSET + 8), (SALT + 1, OFFSET), (SALT ^ OFFSET, 0)):
        assert read(written(FIRST, AS_SEALED, salt, offset), None, salt, offset)
        if salt ^ offset != SALT ^ OFFSET:
            with pytest.raises(Damaged):
                read(data, None, salt, offset)


FIRST = KINDS["alike, a ms each"]


@pytest.mark.parametrize("kind", FLIPPED)
def test_a_directory_that_does_not_fit_is_damage_though_the_checksum_fits(kind):
    """A forged block, or a fault of the writer: it ends in words, takes no memory, and never in another exception."""
    data = written(KINDS[kind])
    body_bytes = Block(KINDS[kind]).body_bytes
    refused = 0
    for at in range(8, len(data) - body_bytes):
        for value in (0, 255, data[at] ^ 1):
            bad = bytearray(data)
            bad[at] = value
            try:
                assert len(decode(bytes(bad), OFFSET, PATH)) <= 255
            except (Damaged, Unreadable):
                refused += 1
    assert refused > 100


def test_a_codec_that_is_not_there_is_named():
    data = bytearray(written(FIRST))
    data[12] = 9
    with pytest.raises(Unreadable, match=r"dir/appendonly\.aof\.7\.seg .*codec 9"):
        decode(bytes(data), OFFSET, PATH)


def test_a_zstd_frame_of_another_length_takes_no_memory():
    zstandard = pytest.importorskip("zstandard")
    huge = zstandard.ZstdCompressor().compress(bytes(1 << 20))
    with pytest.raises(ValueError, match="another length"):
        codec.decompress(huge, 1000)
    with pytest.raises(ValueError):
        codec.decompress(huge[:9] + bytes(20), 1 << 20)
    with pytest.raises(ValueError):
        codec.decompress(b"no frame", 8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_is_as_large_as_fits_and_a_larger_segment_alone(kind):
    segments = KINDS[kind] * (30 if len(KINDS[kind][0].fields) < 1_000 else 3)
    groups = list(grouped(segments))
    assert [one for group in groups for one in group] == segments
    for group, following in zip(groups, [*groups[1:], None], strict=True):
        size = len(written(group))
        assert size <= BLOCK_BYTES or len(group) == 1
        if following is not None:
            assert len(written([*group, following[0]])) > BLOCK_BYTES


@pytest.mark.interpreted(reason="replaces a bound of the module")
def test_a_segment_that_is_too_large_for_the_format_is_refused(monkeypatch):
    monkeypatch.setattr(block, "BLOCK_BYTES_MAX", stored_bytes(FIRST[0]))
    assert list(grouped(FIRST[:1])) == [FIRST[:1]]
    monkeypatch.setattr(block, "BLOCK_BYTES_MAX", stored_bytes(FIRST[0]) - 1)
    with pytest.raises(ValueError, match="too large for a block"):
        list(grouped(FIRST))


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_that_a_segment_takes_is_known_before(kind):
    for segment in KINDS[kind]:
        names = b"" if isinstance(segment.fields, bytes) else segment.fields
        expected = stored_bytes(segment) + 72 + (block._names_bytes(names) if names else 0)
        assert len(written([segment])) == expected

"""CONFIG GET of many names and patterns."""

from time import process_time


def test_faults2_3_8_many_names_are_looked_up_and_not_searched_for(engine):
    names = ["MaxMemory", "maxmemory", "appendfsync", "nosuch"] * 2_500
    start = process_time()
    found = engine.execute(["CONFIG", "GET", *names])
    assert process_time() - start < 0.05  # (it took 0.2 s)
    assert dict(zip(found[::2], found[1::2], strict=True)) == {b"MaxMemory": b"0", b"appendfsync": b"everysec"}


def test_faults2_3_8_an_option_is_matched_until_a_pattern_is_its(engine):
    start = process_time()
    found = engine.execute(["CONFIG", "GET", *["*"] * 1_000, *["max*"] * 1_000])
    assert process_time() - start < 0.02  # (it took 0.05 s)
    assert len(set(found[::2])) == len(found) // 2 > 50
    assert engine.execute(["CONFIG", "GET", "*"]) == found


def test_faults2_3_8_what_names_and_patterns_find_is_shown_once(engine):
    found = engine.do("CONFIG GET MAXMEMORY maxmemory maxmem* *memory MAXMEMORY")
    assert sorted(found[::2]) == [b"MAXMEMORY", b"maxmemory-policy", b"stream-memory"]
    assert engine.do("CONFIG GET maxmemory MAXMEMORY maxmem*") == [
        b"maxmemory",
        b"0",
        b"maxmemory-policy",
        b"noeviction",
    ]

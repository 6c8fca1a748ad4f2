"""The size of an element, by which OBJECT ENCODING names a list, is that of the codec of listpacks."""

from streamd.data.encodings import element_bytes
from streamd.rdb.packs import integer_element, string_element


def test_an_integer_takes_as_many_bytes_as_its_element():
    edges = [sign * 2**power + step for power in range(64) for sign in (1, -1) for step in (-1, 0, 1)]
    numbers = [number for number in (*range(-5000, 5000), *edges) if -(2**63) <= number < 2**63]
    assert [n for n in numbers if element_bytes(b"%d" % n) != len(integer_element(n))] == []


def test_a_string_takes_as_many_bytes_as_its_element():
    lengths = [*range(300), *range(4000, 4200), *range(16_300, 16_400), 2_097_140, 2_097_150, 2_097_151]
    assert [n for n in lengths if element_bytes(b"x" * n) != len(string_element(b"x" * n))] == []


def test_a_list_is_a_listpack_up_to_the_bytes_that_its_option_says(engine):
    engine.execute(["RPUSH", "l", *["x" * 60] * 132])  # 62 bytes each, and 7: 8,191
    assert engine.do("OBJECT ENCODING l") == b"listpack"
    engine.do("RPUSH l y")
    assert engine.do("OBJECT ENCODING l") == b"quicklist"
    engine.do("CONFIG SET list-max-listpack-size -3")
    assert engine.do("OBJECT ENCODING l") == b"listpack"

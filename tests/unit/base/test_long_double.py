"""Sums in 80-bit numbers, as Redis makes them."""

import pytest

from streamd.base.errors import NotAFloat, NotFinite
from streamd.base.long_double import add_fractions


@pytest.mark.parametrize(
    ("number", "increment", "total"),
    [
        (b"0", b"0", b"0"),
        (b"0.1", b"0.2", b"0.3"),
        (b"3.0e3", b"200", b"3200"),
        (b"0.3", b"1e17", b"100000000000000000.296875"),
        (b"1.5", b"-1.5", b"0"),
        (b"-0.0", b"0", b"0"),
        (b"-1", b"0.25", b"-0.75"),
        (b"1", b"1e-30", b"1"),
        (b".5", b"5.", b"5.5"),
        (b"9007199254740993", b"0", b"9007199254740993"),
        (b"0x10", b"1", b"17"),
    ],
)
def test_a_sum_is_printed_as_redis_prints_it(number, increment, total):
    assert add_fractions(number, increment) == total


@pytest.mark.parametrize("text", [b"", b" 1", b"1 ", b"x", b"1x", b"nan", b"1_0", b"e5", b".", b"1e99999"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(NotAFloat):
        add_fractions(b"1", text)


@pytest.mark.parametrize("text", [b"inf", b"-inf", b"+Infinity"])
def test_a_sum_must_be_finite(text):
    with pytest.raises(NotFinite):
        add_fractions(b"1", text)


@pytest.mark.parametrize(
    ("number", "error"), [(b"1" * 5_000, NotAFloat), (b"1e4300", NotAFloat), (b"99e4199", NotFinite)]
)
def test_a_number_of_thousands_of_digits_is_refused(number, error):
    with pytest.raises(error):
        add_fractions(number, b"1")

"""Floats are written as Redis 8 writes them, and are read as the same number."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamd.resp.floats import format_float


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, b"0"),
        (-0.0, b"-0"),
        (3.0, b"3"),
        (-1.5, b"-1.5"),
        (0.1, b"0.1"),
        (1 / 3, b"0.3333333333333333"),
        (1e-5, b"0.00001"),
        (1e-6, b"0.000001"),
        (1e-7, b"1e-7"),
        (1.23e-4, b"0.000123"),
        (1.23e-5, b"1.23e-5"),
        (1234.1234567, b"1234.1234567"),
        (12345.123456, b"12345.123456"),
        (12345.1234567, b"1.23451234567e+4"),
        (999999999999999.9, b"999999999999999.9"),
        (1e17, b"100000000000000000"),
        (123456789012345678.0, b"123456789012345680"),
        (2.0**62, b"4611686018427387904"),
        (2.0**63, b"9223372036854776000"),
        (9.3e18, b"9.3e+18"),
        (1e21, b"1e+21"),
        (-1.5e300, b"-1.5e+300"),
        (5e-324, b"5e-324"),
        (math.inf, b"inf"),
        (-math.inf, b"-inf"),
        (math.nan, b"nan"),
    ],
)
def test_a_float_is_written_as_redis_writes_it(number, text):
    assert format_float(number) == text


@given(st.floats(allow_nan=False))
def test_a_float_is_read_as_the_same_number(number):
    assert float(format_float(number)) == number

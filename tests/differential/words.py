"""The words that random requests are made of."""

STREAMS = [b"s", b"t", b"u"]
KEYS = [*STREAMS, b"string", b"hash", b"list", b"set", b"zset", b"no key"]
PRODUCERS = [b"p", b"p", b"q", b"\xff"]
NAMES = [b"i", b"i", b"j", b"k", b"0"]
GROUPS = [b"g", b"h", b""]
CONSUMERS = [b"ann", b"bob", b"cid", b""]
FIELDS = [b"f", b"f", b"f", b"name", b"2", b"", b"\xff\x00\r\n"]
VALUES = [b"v", b"1", b"-7", b"word", b"", b"3.25", b"v" * 70, b"\x80\r\n"]
# IDs in the far future: behind them `*` gives the next ID, whatever the clock says.
FUTURE_MS = 99_999_999_999_999
EDGE_IDS = [
    *(b"0", b"0-0", b"0-1", b"1", b"5-5", b"18446744073709551615-18446744073709551615", b"18446744073709551615"),
    *(b"18446744073709551615-0", b"18446744073709551614-18446744073709551615", b"0-18446744073709551615"),
]
BAD_IDS = [b"", b"-", b"+", b"$", b">", b"*", b"1-", b"-1", b"1-2-3", b"a-1", b"1-*", b"18446744073709551616", b"(1"]
# Whatever is put in place of a right word. None of the numbers is a length that would take much memory.
BAD_WORDS = [
    *(b"", b"0", b"-1", b"-0", b"+1", b"01", b"1.5", b" 1", b"1 ", b"x", b"nan", b"\xff", b"9223372036854775807"),
    *(b"-9223372036854775808", b"9223372036854775808", b"18446744073709551615", b"-", b"+", b"$", b">", b"*", b"~"),
    *(b"=", b"COUNT", b"IDS", b"IDMP", b"LIMIT", b"STREAMS", b"GROUP", b"JUSTID", b"s", b"g"),
]
COUNTS = [b"1", b"1", b"2", b"2", b"3", b"5", b"10", b"0", b"-1", b"1000000", b"9223372036854775807"]
# Far from each other and from 0, so that the moment at which a server looks at its clock decides nothing.
IDLE_MS = [b"0", b"0", b"0", b"500000", b"50000000"]
SET_IDLE_MS = [b"0", b"1000000", b"100000000", b"9000000000000000000", b"-5"]
EXPIRE_S = [b"100", b"100", b"1000000", b"0", b"-1", b"9223372036854775", b"9223372036854775807"]
# Scores whose sums are the same in any order; and what is none. (None that is too large: behind such a one a SORT of
# redis-server takes its own numbers for too large, as it does not forget the fault before.)
SCORES = [b"1", b"1", b"2", b"2.5", b"-3", b"1e3", b"inf", b"-inf", b"0", b"65536", b"-0.5", b"0x10", b"nan"]
SCORE_BOUNDS = [b"-inf", b"+inf", b"(1", b"1", b"2", b"(2.5", b"-3", b"1000", b"(1e3", b"x", b"(", b"(inf"]
LEX_BOUNDS = [b"-", b"+", b"[a", b"(a", b"[b", b"(c", b"[", b"(", b"[bb", b"a", b"+x"]
MEMBERS = [b"a", b"a", b"b", b"bb", b"c", b"d", b"", b"m" * 70, b"\xff\x00"]
PLACES = [b"0", b"1", b"-1", b"-2", b"2", b"5", b"100", b"-100"]

"""Requests as bytes, and what they are: for the decoders, and for redis-server beside them."""

XADD = b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nf\r\n$10\r\n0123456789\r\n"
XADD_WORDS = [b"XADD", b"s", b"*", b"f", b"0123456789"]
PING = b"*1\r\n$4\r\nPING\r\n"

ACCEPTED: list[tuple[bytes, list[list[bytes]]]] = [
    (b"", []),
    (PING, [[b"PING"]]),
    (XADD, [XADD_WORDS]),
    (XADD * 3, [XADD_WORDS] * 3),
    (b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", [[b"ECHO", b""]]),
    (b"*1\r\n$0\r\n\r\n", [[b""]]),
    (
        b"*2\r\n$4\r\nECHO\r\n$14\r\n\r\n*1\r\n$1\r\na\r\n*\r\n" + PING,
        [[b"ECHO", b"\r\n*1\r\n$1\r\na\r\n*"], [b"PING"]],
    ),
    (b"*2\r\n$4\r\nECHO\r\n$9\r\n+=(~>|%$*\r\n" + PING, [[b"ECHO", b"+=(~>|%$*"], [b"PING"]]),
    (b"*2\r\n$4\r\nECHO\r\n$8\r\n*9999999\r\n" + PING, [[b"ECHO", b"*9999999"], [b"PING"]]),
    (b"*2\r\n$4\r\nECHO\r\n$4\r\n\x00\xff\r\n\r\n", [[b"ECHO", b"\x00\xff\r\n"]]),
    (b"*2\r\n$4\r\nECHO\r\n$1500\r\n" + b"\r" * 1500 + b"\r\n", [[b"ECHO", b"\r" * 1500]]),
    (b"*12\r\n" + b"$2\r\nab\r\n" * 12, [[b"ab"] * 12]),
    # Null and empty requests are skipped.
    (b"*0\r\n" + PING, [[b"PING"]]),
    (b"*-1\r\n*-5\r\n*0\r\n" + PING, [[b"PING"]]),
    (PING + b"*-9223372036854775808\r\n" + PING, [[b"PING"]] * 2),
    # Two bytes behind a word, and one behind the CR of a header, are not looked at.
    (b"*1\r\n$4\r\nPINGXY" + PING, [[b"PING"]] * 2),
    (b"*1\rX$4\rXPINGXY" + PING, [[b"PING"]] * 2),
    # Inline requests.
    (b"PING\r\n", [[b"PING"]]),
    (b"PING\n", [[b"PING"]]),
    (b"PING\r\r\n", [[b"PING"]]),
    (b"\r\n\n \t\r\n" + PING + b"  ECHO \t a \n", [[b"PING"], [b"ECHO", b"a"]]),
    (PING + b"PING\r\n" + PING, [[b"PING"]] * 3),
    (b"ECHO\ra\r\n", [[b"ECHO", b"a"]]),
    (b"\vECHO a\vb\r\n", [[b"ECHO", b"a\vb"]]),
    (b'ECHO "a b"\r\n', [[b"ECHO", b"a b"]]),
    (b'ECHO a"b c"\r\n', [[b"ECHO", b"ab c"]]),
    (b'ECHO ""\r\n', [[b"ECHO", b""]]),
    (b'ECHO "\\n\\r\\t\\b\\a\\"\\\\\\q"\r\n', [[b"ECHO", b'\n\r\t\b\a"\\q']]),
    (b'ECHO "\\x00\\xfF\\x4\\xg1"\r\n', [[b"ECHO", b"\x00\xffx4xg1"]]),
    (b"ECHO 'a \"b\" \\n \\' c'\r\n", [[b"ECHO", b'a "b" \\n \' c']]),
    (b"ECHO a\\n\\x41\r\n", [[b"ECHO", b"a\\n\\x41"]]),
    (b"ECHO \xff\xfe\r\n", [[b"ECHO", b"\xff\xfe"]]),
    (b'ECHO "a"\v\n', [[b"ECHO", b"a"]]),
    (b"'ECHO' x \r\n", [[b"ECHO", b"x"]]),
    (b"$3\r\n", [[b"$3"]]),
    (b"+OK\r\n", [[b"+OK"]]),
]

# What is delivered first, and the error behind "ERR Protocol error: ".
REFUSED: list[tuple[bytes, list[list[bytes]], str]] = [
    *(
        (b"*%b\r\n" % count, [], "invalid multibulk length")
        for count in (
            b"",
            b"-",
            b"+1",
            b"-0",
            b"00",
            b"01",
            b" 1",
            b"1 ",
            b"1_0",
            b"1\n",
            b"a",
            b"0x1",
            b"1.0",
            b"\xd9\xa1",
            b"2147483648",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"1" * 30,
        )
    ),
    *(
        (b"*1\r\n$%b\r\n" % length, [], "invalid bulk length")
        for length in (
            b"",
            b"-",
            b"-1",
            b"+4",
            b"-0",
            b"04",
            b" 4",
            b"4 ",
            b"4_0",
            b"a",
            b"4\n",
            b"536870913",
            b"9223372036854775808",
            b"1" * 30,
        )
    ),
    *(
        (b"*1\r\n%c4\r\nPING\r\n" % kind, [], f"expected '$', got '{chr(kind)}'")
        for kind in b"+-:*%~>=(,#_|!P4 \t\x7f\x01"
    ),
    (b"*1\r\n\r\n\r\n", [], "expected '$', got ' '"),
    (b"*1\r\n\n\r\n", [], "expected '$', got ' '"),
    (b"*1\r\n\xff\r\n", [], "expected '$', got '\udcff'"),
    (b"*2\r\n$4\r\nECHO\r\n*1\r\n$1\r\na\r\n", [], "expected '$', got '*'"),
    (b"*2\r\n$3\r\nPING\r\n$1\r\na\r\n", [], "expected '$', got ' '"),
    (b"*2\r\n$10\r\n0123456789\r\n$\r\n", [], "invalid bulk length"),
    (PING + XADD + b"*x\r\n" + PING, [[b"PING"], XADD_WORDS], "invalid multibulk length"),
    (PING * 20 + b"*1\r\n+PING\r\n" + PING, [[b"PING"]] * 20, "expected '$', got '+'"),
    (b'PING\r\nECHO "a\r\n' + PING, [[b"PING"]], "unbalanced quotes in request"),
    *(
        (b"ECHO %b\r\n" % words, [], "unbalanced quotes in request")
        for words in (
            b'"',
            b"'",
            b'"a"b',
            b"'a'b",
            b"\"a''",
            b'"a""b"',
            b"'a\\'",
            b'"a\\"',
            b'"a\\',
            b'x"',
            b"'a'\"b\"",
        )
    ),
    (b"a" * 65_537, [], "too big inline request"),
    (b"*" + b"1" * 65_536, [], "too big mbulk count string"),
    (b"*1\r\n$" + b"1" * 65_536, [], "too big bulk count string"),
]
assert len({data for data, *_ in ACCEPTED}) == len(ACCEPTED)

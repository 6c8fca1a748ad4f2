"""Objects that Arrow's own reader takes at once are read as by the way that takes one value after another."""

import random
from functools import partial

import pyarrow as pa
import pytest

from spark_source.values import json_read
from spark_source.values.casts import cast_column

PLAIN = pa.struct([
    ("a", pa.int64()), ("i", pa.int8()), ("s", pa.string()), ("d", pa.float64()), ("f", pa.float32()),
    ("b", pa.bool_()),
    ("l", pa.list_(pa.struct([("a", pa.int32()), ("s", pa.string())]))), ("o", pa.struct([("s", pa.string())])),
])  # fmt: skip
GOOD = {
    "a": ["1", "-0", "null", "9223372036854775807"],
    "i": ["127", "-1"],
    "s": ['"x"', '"é\\n\\u00e9"', '"NaN: [Infinity"', '""', '"}\\n{"'],
    "d": ["1", "1.5", "1E5", "-0", "0.1", "12345678901234567890"],
    "f": ["1.5", "0.1", "3.4e38", "16777217"],
    "b": ["true", "false"],
    "l": ["[]", "[null]", "[{}]", '[{"a":1,"s":"q"},{"a":2,"zz":[{}]}]'],
    "o": ["{}", '{"s":"z"}'],
    "zz": ["1", '{"s":[{}]}'],
}
ODD = [
    "128", "-129", "9223372036854775808", "1.0", "1e2", "1e400", "1e-50", '"5"', '"1.5"', '"\\ud800"', '"a\nb"',
    '"NaN"', "NaN", "Infinity", "-Inf", "[1]",
    '[{"a":"1"}]', '[{"a":1},]', '"true"', "01", "+1", "1.", ".5", '{"s":"z"', "tru",
]  # fmt: skip


def some_object(chance: random.Random, oddity: float) -> str:
    """Return an object of the type above, with a chance for each part that it does not fit, or is no JSON."""
    parts = []
    for _ in range(chance.randrange(6)):
        name = chance.choice([*GOOD, "A", ""]) if chance.random() < oddity else chance.choice(list(GOOD))
        value = chance.choice(ODD) if chance.random() < oddity else chance.choice(GOOD.get(name, ["1"]))
        parts.append(f'"{name}"{chance.choice(["", " "])}:{value}')
    whole = "{" + ",".join(parts) + "}"
    if chance.random() >= oddity:
        return whole
    others = [whole * 2, f"{whole}\n{whole}", f"{whole},{whole}", whole[:-1], whole[1:], whole + "}", whole + " "]
    return chance.choice([*others, "null", "[]", "", "{}{", "}{", '{"zz":{}', '{"zz":{}}}'])


@pytest.mark.parametrize("oddity", [0, 0.03, 0.1])
def test_both_ways_read_the_same(oddity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, at_once, taken = random.Random(oddity), json_read._all_at_once, 0
    for _ in range(1500):
        rows = [some_object(chance, oddity) if chance.random() < 0.9 else None for _ in range(chance.randint(1, 5))]
        values = [None if row is None else row.encode() for row in rows]
        if chance.random() < oddity:
            values = [value and value.replace(b"x", b"\xff") for value in values]
        found = at_once(values, PLAIN)
        if found is None:
            continue
        taken += 1
        monkeypatch.setattr(json_read, "_all_at_once", lambda *_: None)
        column, bad, lacking = json_read.read_json(values, PLAIN, partial(cast_column, zone="UTC"))
        assert (repr(found.to_pylist()), found.type) == (repr(column.to_pylist()), column.type), values
        assert (bad, lacking) == ([], []), values
    assert taken > 300, "too few were taken to show anything"


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([]),
        pa.struct([("m", pa.map_(pa.string(), pa.string()))]),
        pa.struct([("t", pa.timestamp("us"))]),
        pa.struct([("b", pa.binary())]),
        pa.struct([pa.field("a", pa.int64(), nullable=False)]),
        pa.list_(pa.int64()),
    ],
    ids=str,
)
def test_types_with_other_rules_are_left_to_the_way_that_knows_them(kind: pa.DataType) -> None:
    assert json_read._all_at_once([b"{}"], kind) is None

"""cjson reads an object that is like one before by that one's shape: it must be read as if it were the first."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamd.base.clock import ManualClock
from tests.examples import examples
from tests.session import Error, Session

# Shows all of a value: keys with their types and values, in an order of its own.
SHOW = """
local function show(v)
  if type(v) ~= 'table' or v == cjson.null then return type(v) .. ':' .. (v == cjson.null and 'null' or tostring(v)) end
  local words = {}
  for key, value in pairs(v) do words[#words + 1] = type(key) .. tostring(key) .. '=' .. show(value) end
  table.sort(words)
  return '{' .. table.concat(words, ';') .. '}'
end
return show(cjson.decode(ARGV[1]))
"""

KEYS = st.sampled_from(["a", "b", "a.b", "%d", "time", "x-y", "é", "", "a b"])
SCALARS = (
    st.integers(-(10**16), 10**16)
    | st.sampled_from([0, -1, 1.5, 1e300, True, False, None])
    | st.text(st.characters(codec="utf-8", exclude_characters='\\"'), max_size=8)
    | st.sampled_from(["a/b", 'say "a"', "\\", "\0", "x" * 50, "é" * 30, "\n"])
)
OBJECTS = st.dictionaries(KEYS, SCALARS | st.just({}) | st.just([1, "a"]), max_size=4)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")])


@st.composite
def texts(draw):
    """Objects over few keys, so that they are often like each other; some cut, some with a letter changed."""
    separators = draw(SEPARATORS)
    text = json.dumps(draw(OBJECTS), separators=separators, ensure_ascii=draw(st.booleans()))
    if draw(st.integers(0, 5)) == 0 and text:
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + draw(st.sampled_from(["", "x", '"', "0", "}", "[", "t", " "])) + text[at + 1 :]
    return draw(st.sampled_from(["%s", "[%s]", "[%s,%s]"])).replace("%s", text)


@pytest.fixture(scope="module")
def knowing():
    """A server whose Lua has seen all that came before."""
    return Session(ManualClock())


def fresh(text):
    """What a Lua that has seen nothing makes of it."""
    session = Session(ManualClock())
    return session.execute(["EVAL", SHOW, 0, text])


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(texts(), min_size=1, max_size=3))
def test_an_object_like_one_before_is_read_as_if_it_were_the_first(knowing, found):
    for text in found:
        first = knowing.execute(["EVAL", SHOW, 0, text])
        assert knowing.execute(["EVAL", SHOW, 0, text]) == first == fresh(text), text


def as_k(value):
    return '{"k":' + value + ',"l":1}'


@pytest.mark.parametrize("value", ['"', '"x', "tru", "truth", "1.", "01", "-", "1e5", "[", "nul", "--1", '"\\x"', "1x"])
def test_what_is_no_value_is_refused_in_an_object_of_a_known_shape_too(knowing, value):
    for known in ('"s"', "1", "true"):
        assert knowing.execute(["EVAL", "return cjson.encode(cjson.decode(ARGV[1]))", 0, as_k(known)])
    text = as_k(value)
    assert knowing.execute(["EVAL", SHOW, 0, text]) == fresh(text)
    if value not in ("1.", "01", "1e5"):
        assert isinstance(fresh(text), Error)


def test_more_shapes_than_are_kept_are_read_as_well(knowing):
    for number in range(700):
        text = json.dumps({f"k{number}": number + 1, "l": "s"})
        assert knowing.execute(["EVAL", SHOW, 0, text]) == b"{stringk%d=number:%d;stringl=string:s}" % (
            number,
            number + 1,
        )


@pytest.mark.parametrize("count", [1, 5_000])
def test_strings_are_written_the_same_however_often(knowing, count):
    script = """
    local first
    for i = 1, ARGV[2] do
      local text = cjson.encode({[ARGV[1]] = ARGV[1], n = {ARGV[1], ['k' .. i] = 'v/' .. i}})
      if i % 1000 == 1 then first = cjson.decode(text) end
      if first[ARGV[1]] ~= ARGV[1] or first.n[1] == nil and first.n['1'] ~= ARGV[1] then return text end
    end
    return 'same'
    """
    for text in ('a/"b"\\\n\x7f', "plain", "x" * 41, "/" * 40):
        assert knowing.execute(["EVAL", script, 0, text, count]) == b"same"

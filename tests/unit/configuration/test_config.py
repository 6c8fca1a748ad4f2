"""What options take."""

import pytest

from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import OPTIONS, Config
from tests.session import Session


@pytest.mark.parametrize("option", ["appendfilename", "appenddirname"])
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\\b", "a\nb", "a\0b"])
def test_the_journal_is_not_given_a_name_that_its_manifest_cannot_hold(option, name):
    with pytest.raises(ConfigError, match=r": argument can't "):
        Config(**{option: name})


@pytest.mark.parametrize(
    "name", ["appendonly.aof", "a-b_c.1", "a b", 'a"b', "a'b", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"]
)
def test_other_names_are_taken(name):
    assert Config(appendfilename=name).text("appendfilename") == name


@pytest.mark.parametrize("option", ["dir", "logfile"])
def test_no_path_holds_a_nul_byte(option):
    with pytest.raises(ConfigError, match=r"^argument can't hold NUL bytes$"):
        OPTIONS[option].parse("a\0b")


@pytest.mark.parametrize("unit", ["", "gb"])
def test_a_size_of_thousands_of_digits_is_out_of_range(unit):
    with pytest.raises(ConfigError, match=r"^argument must be between 0 and 9223372036854775807 inclusive$"):
        OPTIONS["maxmemory"].parse("1" * 5000 + unit)
    assert OPTIONS["maxmemory"].parse("0" * 5000 + "1" + unit) == (2**30 if unit else 1)


@pytest.mark.parametrize("option", ["hash-max-listpack-value", "zset-max-listpack-value", "hash-max-ziplist-value"])
def test_a_bound_of_bytes_is_taken_with_a_unit_as_redis_takes_it(option):
    session = Session().connect()
    assert session.do(f"CONFIG SET {option} 1kb") == "OK"
    assert session.do(f"CONFIG GET {option}") == [option.encode(), b"1024"]


def test_no_more_databases_are_taken_than_a_server_can_look_after():
    assert len(Session(config=Config(databases=4_096)).state.keyspace.databases) == 4_096
    with pytest.raises(ConfigError, match=r"^databases=4097: argument must be between 1 and 4096 inclusive$"):
        Config(databases=4_097)


def test_a_wrong_option_is_named_with_what_it_was_given():
    with pytest.raises(ConfigError, match=r"^unknown option 'max_client'; did you mean 'maxclients'\?$"):
        Config(max_client=5)
    with pytest.raises(ConfigError, match=r"^maxmemory='lots': argument must be a memory value$"):
        Config(maxmemory="lots")

"""What options take."""

import pytest

from streamd.base.config import Config, ConfigError


@pytest.mark.parametrize("option", ["appendfilename", "appenddirname"])
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\\b", "a b", "a\nb", 'a"b', "a'b", "a\0b"])
def test_the_journal_is_not_given_a_name_that_its_manifest_cannot_hold(option, name):
    with pytest.raises(ConfigError, match=r"^argument can't "):
        Config(**{option: name})


@pytest.mark.parametrize("name", ["appendonly.aof", "a-b_c.1", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"])
def test_other_names_are_taken(name):
    assert Config(appendfilename=name).text("appendfilename") == name

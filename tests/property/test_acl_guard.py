"""A guard allows exactly what the plain decision allows: all short lists of rules, and tables that are full."""

from itertools import permutations

import pytest

from streamd.acl.rule_errors import RuleError
from streamd.acl.user import User
from streamd.catalog import guard as guards
from tests.fuzz.targets.users import check_user, commands

RULES = [
    b"+@all", b"-@all", b"+get", b"-get", b"+config|get", b"+select|0", b"-@write", b"~*", b"~a", b"~a*", b"~b*",
    b"~[ab]", b"%R~a*", b"%W~b", b"%W~a*", b"&*", b"&a", b"&a*", b"(+get ~b)", b"(+@all %R~a*)", b"(+@all ~* &b)",
]  # fmt: skip


def check_rules(rules):
    table, vocabulary = commands()
    user = User(b"ann", vocabulary)
    for rule in rules:
        try:
            user.apply(rule)
        except RuleError:
            return
    check_user(user, table, vocabulary)


@pytest.mark.parametrize("first", [b"+@all", b"+@read"])
def test_a_guard_allows_what_the_rules_allow(first):
    for length in (0, 1, 2):
        for rules in permutations(RULES, length):
            check_rules((first, *rules))


def test_a_guard_allows_what_the_rules_allow_when_it_remembers_next_to_nothing(monkeypatch):
    """So tables are emptied, or full, at each name."""
    monkeypatch.setattr(guards, "KNOWN_KEYS_MAX", 1)
    for rules in permutations(RULES, 2):
        check_rules((b"+@all", *rules))

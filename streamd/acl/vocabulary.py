"""The commands, subcommands and categories that rules can name, each as a set of bits."""

from collections.abc import Mapping, Sequence

from streamd.acl.categories import CATEGORIES, OTHER_COMMANDS


class Vocabulary:
    """The commands that rules can name.

    A set of commands is an integer, one bit for each. Allowing a container allows its subcommands as well, so a rule
    may change more (`changed_by`) than the bit of the command that it names (`bit`).

    names: all commands and subcommands (`config|get`), each container in front of its subcommands.
    everything: all bits, with one for commands that are not there yet: `+@all` sets it.
    future: that bit.
    lacking: the words of rules that name only commands that this server does not have: `msetex`, `@array`.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        """commands: full name in lower case -> categories."""
        known = {**OTHER_COMMANDS, **commands}
        by_container: dict[str, list[str]] = {}
        for name in known:
            container, bar, _ = name.partition("|")
            subcommands = by_container.setdefault(container, [])
            if bar:
                subcommands.append(name)
        self.names = [name for first, subcommands in by_container.items() for name in (first, *subcommands)]
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self.future = 1 << len(self.names)
        self.everything = 2 * self.future - 1
        self._changed_by = {name: self.bit(name) for name in self.names}
        for name, subcommands in by_container.items():
            for one in subcommands:
                self._changed_by[name] |= self.bit(one)
        self.containers = frozenset(name for name, subcommands in by_container.items() if subcommands)
        # Of each category, the commands that are in it, and what a rule that names it changes.
        self.members = dict.fromkeys(CATEGORIES, 0)
        self.changed_by_category = dict.fromkeys(CATEGORIES, 0)
        for name, categories in known.items():
            for category in categories:
                self.members[category] |= self.bit(name)
                self.changed_by_category[category] |= self._changed_by[name]
        inhabited = {category for categories in commands.values() for category in categories}
        empty = [f"@{category}" for category in CATEGORIES if category not in inhabited]
        self.lacking = frozenset([*(name for name in OTHER_COMMANDS if name not in commands), *empty])

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def bit(self, name: str) -> int:
        """Return the set of this command alone."""
        return 1 << self._numbers[name]

    def changed_by(self, name: str) -> int:
        """Return the set that a rule on this command changes: the command and its subcommands."""
        return self._changed_by[name]

    def names_in(self, commands: int) -> list[str]:
        """Return the names of the commands in a set."""
        return [name for number, name in enumerate(self.names) if commands >> number & 1]

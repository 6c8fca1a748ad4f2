"""Why a rule is refused, in the words of ACL SETUSER."""

from enum import Enum


class Fault(Enum):
    """The faults of a rule, in Redis's words."""

    UNKNOWN = "Unknown command or category name in ACL"
    SYNTAX = "Syntax error"
    ALL_KEYS = (
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. "
        "Try 'resetkeys' to start with an empty list of patterns"
    )
    ALL_CHANNELS = (
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. "
        "Try 'resetchannels' to start with an empty list of channels"
    )
    NO_SUCH_PASSWORD = "The password you are trying to remove from the user does not exist"
    NO_HASH = "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    FIRST_WORD_OF_SUBCOMMAND = "Allowing first-arg of a subcommand is not supported"


class RuleError(Exception):
    """A rule that is refused."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


class Brackets(Exception):
    """A selector without its closing bracket; `word` opens it."""

    def __init__(self, word: bytes) -> None:
        super().__init__("Unmatched parenthesis")
        self.word = word

"""Failure: the end of a program, with an exit code and one line of text."""

EXIT_OK, EXIT_BUG, EXIT_USAGE, EXIT_ADDRESS, EXIT_DIRECTORY, EXIT_DAMAGED, EXIT_JOURNAL = range(7)

# The same, as help tells them.
EXIT_CODES = """exit codes:
  0  stopped cleanly; the journal is whole
  1  a bug in streamd
  2  usage or configuration
  3  address: in use, not this machine's, or no server there
  4  data directory: unreadable, unwritable or locked by another server
  5  journal damaged; or two servers differ
  6  journal could not be written
"""


class Failure(Exception):
    """An end with an exit code, and one line with the fault and advice."""

    def __init__(self, code: int, line: str) -> None:
        super().__init__(line)
        self.code = code

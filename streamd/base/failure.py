"""Failure: an end of a program with an exit code, told in one line."""

EXIT_OK, EXIT_BUG, EXIT_USAGE, EXIT_ADDRESS, EXIT_DIRECTORY, EXIT_DAMAGED, EXIT_JOURNAL = range(7)


class Failure(Exception):
    """An end with an exit code and one line that says what is wrong and what to do."""

    def __init__(self, code: int, line: str) -> None:
        super().__init__(line)
        self.code = code

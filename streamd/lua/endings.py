"""The ways in which scripts end without returning."""


class NoLua(Exception):
    """lupa or greenlet is not installed."""


class Failed(Exception):
    """A script ended in an error that it did not catch.

    text: the error's line.
    source, line: where in the script it was raised, `@user_script` and a number; b"" if unknown.
    """

    def __init__(self, text: bytes, source: bytes = b"", line: int = 0) -> None:
        super().__init__(text)
        self.text = text
        self.source = source
        self.line = line

"""The error of a listener that cannot be started as its options say."""


class ListenFault(ValueError):
    """A listener cannot be started: its text is one line with the option or place, what is wrong, and what to do.

    of_place: True when a place to listen at cannot be had, such as a port in use; False when an option is wrong.
    """

    def __init__(self, text: str, *, of_place: bool = False) -> None:
        super().__init__(text)
        self.of_place = of_place

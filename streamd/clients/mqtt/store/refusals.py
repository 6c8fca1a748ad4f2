"""Reads that the store refuses: said once, and seen as long as they last."""

from collections.abc import Callable
from typing import Final

_TEXTS_MAX: Final = 100


class Refusals:
    """The refusals of one kind of read. text: the present one; None while the store lets the gateway read.

    effect: what does not happen meanwhile. say: writes a line to the gateway's log.
    """

    def __init__(self, effect: str, say: Callable[[str], None]) -> None:
        self._effect, self._say = effect, say
        self._said: set[str] = set()
        self.text: str | None = None

    def note(self, fault: Exception) -> None:
        """Note that a read was refused, and will be tried again."""
        self.text = text = str(fault)
        if text in self._said:
            return
        if len(self._said) >= _TEXTS_MAX:
            self._said.clear()
        self._said.add(text)
        is_right = text.startswith("NOPERM") or "permission" in text
        advice = "give the gateway's user the rights in docs/security.md" if is_right else "mend that"
        self._say(f"{self._effect}: the store refuses to be read: {text}; {advice}, and the gateway goes on by itself")

    def over(self) -> None:
        """Note that the store lets the gateway read."""
        if self.text is not None:
            self.text = None
            self._said.clear()
            self._say("the store lets the gateway read again")

"""A mark for classes whose objects need weak references."""

from typing import TypeVar

T = TypeVar("T", bound=type)


def referable(kind: T) -> T:
    """Return the class as it is.

    A class that is decorated stays an ordinary one in the compiled form, with methods that are compiled. The others
    have no room for weak references there or, derived from a class that has, are freed without clearing them.
    """
    return kind

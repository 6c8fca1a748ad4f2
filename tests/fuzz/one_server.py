"""A server that inputs share because what they do leaves nothing behind."""

from functools import cache

from tests.session import Session


@cache
def one_server() -> Session:
    """Return the one session of this process."""
    return Session()

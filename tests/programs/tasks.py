"""Jobs for queues: a worker finds them by their names."""


def add(one: int, two: int) -> int:
    """Return the sum."""
    return one + two


def fail(text: str) -> None:
    """Fail with this text."""
    raise ValueError(text)


FAILURES_LEFT = [2]


def fail_twice() -> str:
    """Fail for the first two times."""
    if FAILURES_LEFT[0]:
        FAILURES_LEFT[0] -= 1
        raise ValueError("not yet")
    return "done"

"""The collector of cycles is off while a page is made, and only then."""

import gc
from collections.abc import Iterator

import pytest

from spark_source.values.collector import undisturbed


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("was_on", [True, False])
def test_it_is_off_while_the_generator_works_and_as_before_while_its_results_are_used(was_on: bool) -> None:
    seen = []

    def pages() -> Iterator[int]:
        for n in range(3):
            seen.append(gc.isenabled())
            yield n

    if not was_on:
        gc.disable()
    used = [(n, gc.isenabled()) for n in undisturbed(pages())]

    assert used == [(n, was_on) for n in range(3)]
    assert seen == [False] * 3
    assert gc.isenabled() == was_on


def test_an_error_and_an_early_end_leave_it_on_and_end_the_generator() -> None:
    ended = []

    def pages() -> Iterator[int]:
        try:
            yield 1
            raise ValueError("no more")
        finally:
            ended.append(True)

    with pytest.raises(ValueError, match="no more"):
        list(undisturbed(pages()))
    assert gc.isenabled()
    reading = undisturbed(pages())
    assert next(reading) == 1
    reading.close()
    assert gc.isenabled()
    assert ended == [True, True]

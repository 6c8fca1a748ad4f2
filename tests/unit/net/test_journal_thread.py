"""The journal's thread: which jobs it takes, which are done at once, and where their ends are told."""

import asyncio
import threading

import pytest

from streamd.net import threads as journal_thread
from streamd.net.threads import QUICK_NS, JournalThread


@pytest.fixture
def watch(monkeypatch):
    """A stopwatch that shows what it is set to, and goes on by `step` each time it is read."""

    class Watch:
        step = 0
        now = 0

        def __call__(self) -> int:
            self.now += self.step
            return self.now

    watch = Watch()
    monkeypatch.setattr(journal_thread, "perf_counter_ns", watch)
    return watch


def run(jobs: list[bool], watch, steps: list[int], failure: OSError | None = None) -> list[tuple[bool, bool, object]]:
    """Hand over one job after the other; return for each whether it was done at once, whether on the loop's thread, and
    the error it was told.
    """
    seen: list[tuple[bool, bool, object]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        after: list[None] = []
        thread = JournalThread(loop, lambda: after.append(None))
        here = threading.get_ident()
        for may_be_at_once, step in zip(jobs, steps, strict=True):
            watch.step = step
            ended = asyncio.Event()
            there: list[int] = []
            errors: list[OSError | None] = []

            def job(there=there) -> None:
                there.append(threading.get_ident())
                if failure is not None:
                    raise failure

            def done(error: OSError | None, errors=errors, ended=ended) -> None:
                assert threading.get_ident() == here
                errors.append(error)
                ended.set()

            at_once = False
            try:
                at_once = may_be_at_once and thread.run_if_quick(job)
            except OSError as error:
                at_once = True
                errors.append(error)
            else:
                if at_once:
                    errors.append(None)
                else:
                    thread.submit(job, done, may_be_at_once)
                    await ended.wait()
            await asyncio.sleep(0)
            assert len(errors) == len(there) == 1
            seen.append((at_once, there[0] == here, errors[0]))
        thread.close()
        assert len(after) == sum(not at_once for at_once, _, _ in seen)

    asyncio.run(main())
    return seen


def test_a_job_that_may_not_be_done_at_once_runs_on_the_thread(watch):
    assert run([False] * 3, watch, [0] * 3) == [(False, False, None)] * 3


def test_quick_jobs_are_done_at_once_and_slow_ones_beside(watch):
    slow = 9 * QUICK_NS
    seen = run([True] * 14, watch, [0, 0, slow, slow, slow] + [0] * 9)
    # Each slow one counts four times what is quick, to an eighth: after three the average is 1.3 times that, and falls
    # by an eighth each.
    assert [at_once for at_once, _, _ in seen] == [True] * 5 + [False] * 3 + [True] * 6
    assert all(at_once == here for at_once, here, _ in seen)


def test_one_job_that_takes_very_long_makes_the_disk_no_slow_one(watch):
    seen = run([True] * 6, watch, [0, 100 * QUICK_NS, 0, 0, 0, 0])
    assert [at_once for at_once, _, _ in seen] == [True] * 6


def test_long_jobs_that_are_not_timed_slow_nothing_down(watch):
    seen = run([True, False, True], watch, [0, 9 * QUICK_NS, 0])
    assert [at_once for at_once, _, _ in seen] == [True, False, True]


@pytest.mark.parametrize("may_be_at_once", [False, True])
def test_an_error_is_told_wherever_the_job_ran(watch, may_be_at_once):
    error = OSError(5, "Input/output error")
    assert [told for _, _, told in run([may_be_at_once], watch, [0], error)] == [error]

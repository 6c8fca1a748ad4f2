"""A group of workers: one is killed in the middle of its work, the others take it over, each job is done once.

    python examples/worker_group.py [--url redis://127.0.0.1:6379] [--jobs 2000] [--workers 3]

Jobs are entries of one stream. Workers read them as one consumer group. A worker writes its result to a second stream
under the job's entry ID as idempotent ID and only then acknowledges the job: when it dies in between, the worker that
claims the job writes the same result again, and the server keeps one.

Ends with exit code 0 if every job has exactly one result, else 1. Without --url it starts a server of its own.
"""

import argparse
import multiprocessing
import os
import signal
import sys
from contextlib import ExitStack
from multiprocessing.synchronize import Barrier

import redis

JOBS, RESULTS, GROUP, BATCH = "jobs", "results", "workers", 50
IDLE_MS = 500  # an entry that nobody acknowledged for so long is taken from its consumer


def worker(url: str, name: str, dies_after: int | None, ready: Barrier) -> None:
    """Be the process of a worker, and end with one line if the server cannot be reached."""
    try:
        work(url, name, dies_after, ready)
    except redis.RedisError as error:
        ready.abort()
        sys.exit(f"worker_group: {url}: {error}")


def work(url: str, name: str, dies_after: int | None, ready: Barrier) -> None:
    """Do jobs until none is left or pending; with `dies_after`, be killed after so many, one of them half done."""
    client = redis.Redis.from_url(url, decode_responses=True)
    jobs = _new_jobs(client, name)
    ready.wait()  # nobody begins before all have something to do
    done = 0
    while jobs or client.xpending(JOBS, GROUP)["pending"]:
        for job_id, fields in jobs:
            result = {"job": job_id, "square": int(fields["n"]) ** 2, "by": name}
            client.xadd(RESULTS, result, idmp=(JOBS, job_id))
            done += 1
            if done == dies_after:
                os.kill(os.getpid(), signal.SIGKILL)  # the result is written, the job is not acknowledged
            client.xack(JOBS, GROUP, job_id)
        # Whose jobs wait for so long is dead, or might be: they are taken over before new ones are.
        _, jobs, _ = client.xautoclaim(JOBS, GROUP, name, min_idle_time=IDLE_MS, count=BATCH)
        if not jobs:
            jobs = _new_jobs(client, name)


def _new_jobs(client: redis.Redis, name: str) -> list[tuple[str, dict[str, str]]]:
    """Return jobs that nobody has, after a tenth of a second none."""
    answer = client.xreadgroup(GROUP, name, {JOBS: ">"}, count=BATCH, block=100)
    return [job for entries in _streams(answer) for job in entries]


def _streams(answer: object) -> list[list[tuple[str, dict[str, str]]]]:
    """Return the entry lists of an XREADGROUP reply, whichever protocol version it came by."""
    if isinstance(answer, dict):
        return [entries for lists in answer.values() for entries in ([lists] if _is_entries(lists) else lists)]
    return [entries for _, entries in answer or []]  # type: ignore[attr-defined]


def _is_entries(lists: list[object]) -> bool:
    return bool(lists) and isinstance(lists[0], tuple)


def run(url: str, jobs: int, workers: int) -> int:
    """Write jobs, let workers do them, kill one, and compare; return the exit code."""
    client = redis.Redis.from_url(url, decode_responses=True)
    client.delete(JOBS, RESULTS)
    client.xgroup_create(JOBS, GROUP, id="0", mkstream=True)
    client.xgroup_create(RESULTS, "setup", mkstream=True)
    client.xgroup_destroy(RESULTS, "setup")
    # The window must outlast the longest time between a first try and its repetition, and hold as many jobs.
    client.execute_command("XCFGSET", RESULTS, "IDMP-DURATION", 3600, "IDMP-MAXSIZE", 10_000)
    with client.pipeline(transaction=False) as pipeline:
        for number in range(jobs):
            pipeline.xadd(JOBS, {"n": number})
        ids = pipeline.execute()

    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(workers)
    crowd = [
        context.Process(target=worker, args=(url, f"worker-{number}", 20 if number == 0 else None, ready))
        for number in range(workers)
    ]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join()

    results = [fields for _, fields in client.xrange(RESULTS)]
    by_job = [fields["job"] for fields in results]
    lost = len(set(ids) - set(by_job))
    twice = len(by_job) - len(set(by_job))
    repeated = client.xinfo_stream(RESULTS)["iids-duplicates"]
    killed = [process.name for process in crowd if process.exitcode == -signal.SIGKILL]
    print(f"jobs {jobs}, workers {workers}, killed {len(killed)}, results {len(results)}")
    for number in range(workers):
        wrote = sum(fields["by"] == f"worker-{number}" for fields in results)
        print(f"  worker-{number} wrote {wrote}{', and was killed' if number == 0 else ''}")
    print(f"results written again and suppressed {repeated}, lost {lost}, duplicated {twice}")
    return 0 if lost == twice == 0 and len(killed) == 1 and repeated >= 1 else 1


def main() -> int:
    """Run the example; return the exit code."""
    parser = argparse.ArgumentParser(description="a consumer group that survives the death of a worker")
    parser.add_argument("--url", help="a running server; by default one is started inside this process")
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.workers < 2 or arguments.jobs < BATCH * arguments.workers:
        parser.error(f"--workers is at least 2, --jobs at least {BATCH} for each of them")
    with ExitStack() as stack:
        url = arguments.url
        if url is None:
            from streamd.testing import Clock, EmbeddedServer

            url = stack.enter_context(EmbeddedServer(clock=Clock())).url
        try:
            return run(url, arguments.jobs, arguments.workers)
        except redis.RedisError as error:
            needs = "; this needs streamd, or Redis from 8.6 on" if isinstance(error, redis.ResponseError) else ""
            print(f"worker_group: {url}: {error}{needs}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())

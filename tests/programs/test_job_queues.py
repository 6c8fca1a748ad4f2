"""Job queues: rq, celery with its result back end, dramatiq."""

import datetime

import pytest

redis = pytest.importorskip("redis")


def test_rq_does_jobs_tries_again_and_keeps_their_order(url):
    rq = pytest.importorskip("rq")
    with redis.Redis.from_url(url) as client:
        queue = rq.Queue("work", connection=client)
        total = queue.enqueue("tests.programs.tasks.add", 2, 3)
        after = queue.enqueue("tests.programs.tasks.add", 4, 5, depends_on=total)
        lost = queue.enqueue("tests.programs.tasks.fail", "broken")
        again = queue.enqueue("tests.programs.tasks.fail_twice", retry=rq.Retry(max=3))
        later = queue.enqueue_in(datetime.timedelta(hours=1), "tests.programs.tasks.add", 1, 1)
        assert after.get_status() == "deferred"
        assert (len(queue), queue.scheduled_job_registry.get_job_ids()) == (3, [later.id])

        worker = rq.SimpleWorker([queue], connection=client)
        assert worker.work(burst=True)
        assert (total.return_value(), after.return_value(), again.return_value()) == (5, 9, "done")
        assert lost.get_status() == "failed"
        assert "ValueError: broken" in lost.latest_result().exc_string
        assert queue.failed_job_registry.get_job_ids() == [lost.id]
        queue.failed_job_registry.requeue(lost.id)
        assert queue.job_ids == [lost.id]
        assert queue.empty() == 1
        assert rq.Worker.all(connection=client) == []


def test_celery_does_tasks_and_hands_back_results(url):
    celery = pytest.importorskip("celery")
    from celery.contrib.testing.worker import start_worker

    app = celery.Celery("tests", broker=url, backend=url, set_as_current=False)
    app.conf.update(task_always_eager=False, broker_connection_retry_on_startup=False, worker_hijack_root_logger=False)
    tries = []

    @app.task(name="add")
    def add(one, two):
        return one + two

    @app.task(name="total")
    def total(numbers):
        return sum(numbers)

    @app.task(name="again", bind=True, max_retries=3)
    def again(self):
        tries.append(self.request.retries)
        if len(tries) < 3:
            raise self.retry(countdown=0)
        return "done"

    @app.task(name="fail")
    def fail():
        raise ValueError("broken")

    with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False, shutdown_timeout=60):
        assert add.delay(2, 3).get(timeout=60) == 5
        assert again.delay().get(timeout=60) == "done"
        assert celery.group(add.s(number, 1) for number in range(20))().get(timeout=60) == list(range(1, 21))
        assert celery.chain(add.s(1, 2), add.s(10))().get(timeout=60) == 13
        assert celery.chord([add.s(number, 0) for number in range(5)])(total.s()).get(timeout=60) == 10
        assert add.apply_async((1, 1), countdown=1).get(timeout=60) == 2
        with pytest.raises(ValueError, match="broken"):
            fail.delay().get(timeout=60)
        revoked = add.apply_async((1, 1), countdown=3600)
        revoked.revoke()
        assert revoked.id not in app.backend.client.keys("*")
    assert tries == [0, 1, 2]


def test_dramatiq_does_messages_with_results_retries_and_delays(url):
    dramatiq = pytest.importorskip("dramatiq")
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.results import Results
    from dramatiq.results.backends import RedisBackend

    broker = RedisBroker(url=url)
    broker.add_middleware(Results(backend=RedisBackend(url=url)))
    dramatiq.set_broker(broker)  # whom messages ask for results
    tries = []

    @dramatiq.actor(broker=broker, store_results=True)
    def add(one, two):
        return one + two

    @dramatiq.actor(broker=broker, store_results=True, max_retries=5, min_backoff=1, max_backoff=1)
    def again():
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("not yet")
        return "done"

    worker = dramatiq.Worker(broker, worker_threads=4, worker_timeout=100)
    worker.start()
    try:
        total = add.send(2, 3)
        messages = [add.send(number, 1) for number in range(50)]
        delayed = add.send_with_options(args=(1, 1), delay=50)
        hard = again.send()
        assert total.get_result(block=True, timeout=60_000) == 5
        assert [one.get_result(block=True, timeout=60_000) for one in messages] == list(range(1, 51))
        assert delayed.get_result(block=True, timeout=60_000) == 2
        assert hard.get_result(block=True, timeout=60_000) == "done"
        broker.join("default", timeout=60_000)
        worker.join()
    finally:
        worker.stop()
        broker.close()
    assert len(tries) == 3
    assert broker.client.llen("dramatiq:default") == 0

"""Locks and rate limits: redis-py's Lock, python-redis-lock, limits."""

import threading

import pytest

redis = pytest.importorskip("redis")


@pytest.fixture
def client(url):
    with redis.Redis.from_url(url) as client:
        yield client


def test_one_holder_at_a_time_has_redis_pys_lock(client):
    lock, other = client.lock("job", timeout=60), client.lock("job", timeout=60)
    assert lock.acquire(blocking=False)
    assert not other.acquire(blocking=False)
    assert lock.extend(60)
    assert 100_000 < client.pttl("job") <= 120_000
    assert lock.reacquire()
    assert client.pttl("job") <= 60_000
    with pytest.raises(redis.exceptions.LockError):
        other.release()
    lock.release()
    assert other.acquire(blocking=False)
    client.delete("job")
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        other.release()


def test_threads_count_without_loss_under_redis_pys_lock(client):
    def work():
        for _ in range(10):
            with client.lock("count-lock", timeout=60, sleep=0.001):
                client.set("count", int(client.get("count") or 0) + 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("count") == b"40"


def test_python_redis_lock_hands_over_to_who_waits(client):
    redis_lock = pytest.importorskip("redis_lock")
    first = redis_lock.Lock(client, "job", expire=60, id="first")
    second = redis_lock.Lock(client, "job", expire=60, id="second")
    assert first.acquire(blocking=False)
    assert not second.acquire(blocking=False)
    assert (first.locked(), first.get_owner_id()) == (True, "first")
    first.extend(120)
    got = threading.Event()

    def wait():
        if second.acquire(timeout=60):
            got.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    first.release()
    waiting.join()
    assert got.is_set()
    assert second.get_owner_id() == "second"
    with pytest.raises(redis_lock.NotAcquired):
        first.release()
    redis_lock.reset_all(client)
    assert not second.locked()


@pytest.mark.parametrize(
    "strategy", ["FixedWindowRateLimiter", "MovingWindowRateLimiter", "SlidingWindowCounterRateLimiter"]
)
def test_limits_lets_so_many_through(url, strategy):
    limits = pytest.importorskip("limits")
    storage = limits.storage.RedisStorage(url)
    limiter = getattr(limits.strategies, strategy)(storage)
    limit = limits.parse("3/hour")
    assert [limiter.hit(limit, "user", "page") for _ in range(4)] == [True, True, True, False]
    assert not limiter.test(limit, "user", "page")
    assert limiter.get_window_stats(limit, "user", "page").remaining == 0
    assert limiter.hit(limit, "another", "page")
    limiter.clear(limit, "user", "page")
    assert limiter.hit(limit, "user", "page", cost=3)
    storage.reset()
    assert limiter.hit(limit, "user", "page", cost=3)
    assert storage.check()

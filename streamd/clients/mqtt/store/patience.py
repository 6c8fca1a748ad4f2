"""Runs the topics' logic on a store that may be away, for as long as it takes."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import redis.asyncio
import redis.exceptions

from streamd.clients.topics.drivers import run_async
from streamd.clients.topics.steps import Steps

_RETRY_S: Final = 0.2
Result = TypeVar("Result")


async def patiently(client: redis.asyncio.Redis, steps: Callable[[], Steps[Result]]) -> Result:
    """Return the result of the logic, which begins anew when the connection was lost amid it.

    Raises: redis.RedisError, for what the store refuses.
    """
    while True:
        try:
            return await run_async(client, steps())
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            await asyncio.sleep(_RETRY_S)

"""Runs the logic of a topic log over redis-py's clients, the plain one or the one for asyncio."""

from typing import Any, TypeVar

import redis
import redis.asyncio

from streamd.clients.topics.steps import Append, Commit, Pipeline, Steps, Watch

T = TypeVar("T")


def check_client(client: Any) -> None:
    """Refuse a client that would decode payloads, which are bytes. Raises: ValueError."""
    if client.get_encoder().decode_responses:
        raise ValueError("the client decodes replies, but payloads are bytes: make it without decode_responses=True")


def block_ms_max(client: Any) -> int:
    """Return the milliseconds that a command may block before the client closes its connection."""
    timeout_s = client.connection_pool.connection_kwargs.get("socket_timeout")
    return 1_000 if timeout_s is None else max(1, min(1_000, int(timeout_s * 500)))


def run(client: redis.Redis, steps: Steps[T]) -> T:
    """Return the result of the logic, whose requests this client sends."""
    transaction: Any = None
    try:
        step = next(steps)
        while True:
            reply: Any
            if isinstance(step, Pipeline):
                pipeline = client.pipeline(transaction=False)
                for command in step.commands:
                    pipeline.execute_command(*command)
                reply = pipeline.execute(raise_on_error=False)
            elif isinstance(step, Append):
                reply = _append(client, step.packed)
            elif isinstance(step, Watch):
                if transaction is None:
                    transaction = client.pipeline(transaction=True)
                try:
                    if step.keys:
                        transaction.watch(*step.keys)
                    reply = [transaction.execute_command(*command) for command in step.commands]
                except redis.WatchError as error:  # so redis-py calls a connection lost in between
                    raise redis.ConnectionError(str(error))
            else:
                assert isinstance(step, Commit)
                assert transaction is not None
                transaction.multi()
                for command in step.commands:
                    transaction.execute_command(*command)
                try:
                    reply = transaction.execute()
                except redis.WatchError:
                    reply = None
                transaction = None
            step = steps.send(reply)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        steps.close()
        if transaction is not None:
            transaction.reset()


def _append(client: redis.Redis, packed: list[bytes]) -> list[Any]:
    """Return the replies to packed commands, sent again as redis-py does it when the connection breaks."""
    pool: Any = client.connection_pool
    connection = pool.get_connection()

    def exchange() -> list[Any]:
        connection.send_packed_command([b"".join(packed)])
        replies: list[Any] = []
        while len(replies) < len(packed):
            try:
                replies.append(connection.read_response())
            except redis.ResponseError as error:
                replies.append(error)
            _take_received(connection, replies, len(packed))
        return replies

    try:
        return connection.retry.call_with_retry(exchange, lambda error: connection.disconnect())
    except BaseException:
        connection.disconnect()  # a reply may be on its way
        raise
    finally:
        pool.release(connection)


def _take_received(connection: Any, replies: list[Any], count: int) -> None:
    """Add the replies that have arrived already, up to `count` in all, for a tenth of the cost of reading them one by
    one.

    If redis-py has other internals than expected this does nothing.
    """
    try:
        from redis._parsers.hiredis import NOT_ENOUGH_DATA
    except ImportError:
        return
    take = getattr(getattr(getattr(connection, "_parser", None), "_reader", None), "gets", None)
    while take is not None and len(replies) < count:
        reply = take(False)
        if reply is NOT_ENOUGH_DATA:
            return
        if isinstance(reply, redis.ConnectionError):
            raise reply
        if not isinstance(reply, list):  # a push is none of the replies
            replies.append(reply)


async def _append_async(client: redis.asyncio.Redis, packed: list[bytes]) -> list[Any]:
    """Do the work of `_append` with an asyncio client."""
    pool: Any = client.connection_pool
    connection = await pool.get_connection()

    async def exchange() -> list[Any]:
        await connection.send_packed_command([b"".join(packed)])
        replies: list[Any] = []
        while len(replies) < len(packed):
            try:
                replies.append(await connection.read_response())
            except redis.ResponseError as error:
                replies.append(error)
        return replies

    try:
        return await connection.retry.call_with_retry(exchange, lambda error: connection.disconnect())
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
    finally:
        await pool.release(connection)


async def run_async(client: redis.asyncio.Redis, steps: Steps[T]) -> T:
    """Return the result of the logic, whose requests this asyncio client sends."""
    transaction: Any = None
    try:
        step = next(steps)
        while True:
            reply: Any
            if isinstance(step, Pipeline):
                pipeline = client.pipeline(transaction=False)
                for command in step.commands:
                    pipeline.execute_command(*command)
                reply = await pipeline.execute(raise_on_error=False)
            elif isinstance(step, Append):
                reply = await _append_async(client, step.packed)
            elif isinstance(step, Watch):
                if transaction is None:
                    transaction = client.pipeline(transaction=True)
                try:
                    if step.keys:
                        await transaction.watch(*step.keys)
                    reply = [await transaction.execute_command(*command) for command in step.commands]
                except redis.WatchError as error:  # so redis-py calls a connection lost in between
                    raise redis.ConnectionError(str(error))
            else:
                assert isinstance(step, Commit)
                assert transaction is not None
                transaction.multi()
                for command in step.commands:
                    transaction.execute_command(*command)
                try:
                    reply = await transaction.execute()
                except redis.WatchError:
                    reply = None
                transaction = None
            step = steps.send(reply)
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        steps.close()
        if transaction is not None:
            await transaction.reset()

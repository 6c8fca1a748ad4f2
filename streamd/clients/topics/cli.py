"""`streamd topics`: create, publish, tail, info, drop, from a shell."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from streamd.clients.server_url import without_password
from streamd.distribution import install_line

if TYPE_CHECKING:
    import redis

    from streamd.clients.topics.topic_log import TopicLog

EXIT_OK, EXIT_USAGE, EXIT_ADDRESS = 0, 2, 3
URL = "redis://127.0.0.1:6379/0"
BATCH = 500
BLOCK_MS = 1_000


def add_options(topics: argparse.ArgumentParser) -> None:
    """Declare the options of `streamd topics`; redis-py is not imported before one of its commands runs."""
    topics.description = (
        "Logs of messages by topic, on streamd or Redis 7.0 and later. Needs redis-py: the extra `client`."
    )
    topics.set_defaults(action=_help(topics))
    actions = topics.add_subparsers(title="commands", metavar="COMMAND")

    def add(name: str, action: Callable[["redis.Redis", argparse.Namespace], int], text: str) -> Any:
        one = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        one.add_argument(
            "--url",
            default=os.environ.get("STREAMD_URL", URL),
            help="the server: redis://[user:password@]host[:port][/db], rediss:// for TLS, unix://,"
            " redis+sentinel://host[:port]/name (default: the variable STREAMD_URL, which keeps a password from other"
            f" users of the machine, else {URL})",
        )
        one.set_defaults(action=lambda arguments: _run(action, arguments))
        return one

    create = add("create", _create, "make a log")
    create.add_argument("log", metavar="LOG")
    create.add_argument("--shards", type=int, default=4, metavar="N", help="streams beside each other (default: 4)")
    create.add_argument("--by", default="publisher", metavar="publisher|topic", help="what decides the shard")
    create.add_argument("--retention", type=int, default=86_400, metavar="SECONDS", help="default: 86400, a day")
    create.add_argument("--filter", action="append", metavar="FILTER", help="topics it takes; repeatable (default: #)")

    publish = add("publish", _publish, "store a message, or each line of the standard input")
    publish.add_argument("log", metavar="LOG")
    publish.add_argument("topic", metavar="TOPIC")
    publish.add_argument("payload", metavar="PAYLOAD", help="the message's text; - takes each line of standard input")
    publish.add_argument("--publisher", metavar="NAME", help="whose order is kept")
    publish.add_argument("--iid", metavar="TEXT", help="the publisher's name for the message: it is stored once")
    publish.add_argument("--expiry", type=float, metavar="SECONDS", help="for how long readers get it")

    tail = add("tail", _tail, "print messages, a JSON object on each line, and go on with what comes")
    tail.add_argument("log", metavar="LOG")
    tail.add_argument("filter", metavar="FILTER", nargs="?", default="#")
    tail.add_argument(
        "--start", default="latest", metavar="TIME", help="earliest, latest, or 2026-01-31T14:05 (default: latest)"
    )
    tail.add_argument("--count", type=int, metavar="N", help="end after so many messages")
    tail.add_argument("--no-follow", action="store_true", help="end when all that is there was printed")

    info = add("info", _info, "print a log's settings, generations, shared replays; without LOG the names of all")
    info.add_argument("log", metavar="LOG", nargs="?")

    drop = add("drop", _drop, "remove a log with all its messages, or one closed generation of it")
    drop.add_argument("log", metavar="LOG")
    drop.add_argument("--generation", type=int, metavar="N", help="only this one")


def _help(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    def show(arguments: argparse.Namespace) -> int:
        parser.print_help()
        return EXIT_USAGE

    return show


def _run(action: Callable[["redis.Redis", argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    try:
        import redis
    except ImportError:
        return _fail(EXIT_USAGE, f"topics need redis-py: {install_line('client')}")
    from streamd.clients.sentinels import pool

    place = without_password(arguments.url)
    try:
        with redis.Redis.from_pool(pool(arguments.url)) as client:
            return action(client, arguments)
    except ValueError as error:
        return _fail(EXIT_USAGE, str(error))
    except redis.AuthenticationError as error:
        return _fail(EXIT_ADDRESS, f"{place}: {error}; the user and password are those in --url or STREAMD_URL")
    except redis.ConnectionError as error:
        return _fail(EXIT_ADDRESS, f"{place}: {error}; is a server running there? Give another with --url")
    except (redis.RedisError, RuntimeError) as error:
        return _fail(EXIT_ADDRESS, f"{place}: {error}")


def _fail(code: int, text: str) -> int:
    print(f"streamd: {text}", file=sys.stderr)
    return code


def _open(client: "redis.Redis", arguments: argparse.Namespace) -> "TopicLog":
    from streamd.clients.topics.topic_log import TopicLog

    return TopicLog.open(client, arguments.log)


def _create(client: "redis.Redis", arguments: argparse.Namespace) -> int:
    from streamd.clients.topics.topic_log import TopicLog

    filters = arguments.filter or ["#"]
    TopicLog.create(client, arguments.log, arguments.shards, arguments.by, arguments.retention, filters)
    print(f"log {arguments.log}: {arguments.shards} shards by {arguments.by}, filters {' '.join(filters)}")
    return EXIT_OK


def _publish(client: "redis.Redis", arguments: argparse.Namespace) -> int:
    from streamd.clients.topics.messages import Message

    log = _open(client, arguments)
    if arguments.payload == "-" and arguments.iid is not None:
        raise ValueError("--iid names one message: it does not go with - for many")
    batch: list[Message] = []
    for payload in _lines() if arguments.payload == "-" else [arguments.payload]:
        batch.append(Message(arguments.topic, payload, arguments.publisher, arguments.iid, arguments.expiry))
        if len(batch) == BATCH:
            _print_ids(log.publish_many(batch))
            batch.clear()
    _print_ids(log.publish_many(batch))
    return EXIT_OK


def _lines() -> Iterable[bytes]:
    return (line.rstrip(b"\r\n") for line in sys.stdin.buffer)


def _print_ids(ids: Iterable[str]) -> None:
    for entry_id in ids:
        print(entry_id)


def _tail(client: "redis.Redis", arguments: argparse.Namespace) -> int:
    if arguments.count is not None and arguments.count < 1:
        raise ValueError(f"--count {arguments.count}: give 1 or more")
    log = _open(client, arguments)
    start: Any = arguments.start
    if start not in ("earliest", "latest"):
        try:
            start = datetime.fromisoformat(start).astimezone()  # without a zone: this machine's
        except ValueError:
            raise ValueError(f"--start {start}: give earliest, latest, or a time such as 2026-01-31T14:05")
    left = arguments.count
    iterator = log.iterator(arguments.filter, start)
    while left is None or left > 0:
        n = BATCH if left is None else min(BATCH, left)
        entries, iterator, state = log.next(iterator, n, 0 if arguments.no_follow else BLOCK_MS)
        for entry in entries:
            print(json.dumps(_shown(entry), ensure_ascii=False), flush=True)
        left = None if left is None else left - len(entries)
        if state == "gap":
            print("streamd: some messages were removed before they were read", file=sys.stderr)
        if state == "end":
            print(f"streamd: log {log.name} was dropped", file=sys.stderr)
        if state == "end" or (arguments.no_follow and state == "live"):
            break
    return EXIT_OK


def _shown(entry: Any) -> dict[str, object]:
    shown: dict[str, object] = {"id": entry.id, "time": entry.time.isoformat(timespec="milliseconds")}
    shown |= {"topic": entry.topic, "publisher": entry.publisher, "payload": entry.payload.decode("utf-8", "replace")}
    pairs = entry.user_properties
    if pairs:
        shown["properties"] = entry.properties if len(entry.properties) == len(pairs) else pairs
    return shown


def _info(client: "redis.Redis", arguments: argparse.Namespace) -> int:
    from streamd.clients.topics.topic_log import TopicLog

    if arguments.log is None:
        print("\n".join(TopicLog.names(client)) or "no logs")
    else:
        print(json.dumps(_open(client, arguments).info(), indent=2, ensure_ascii=False))
    return EXIT_OK


def _drop(client: "redis.Redis", arguments: argparse.Namespace) -> int:
    _open(client, arguments).drop(arguments.generation)
    what = "" if arguments.generation is None else f"generation {arguments.generation} of "
    print(f"dropped {what}log {arguments.log}")
    return EXIT_OK

"""`python -m demo.sessions`: messages for devices that are offline, while broker and server are killed."""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import redis
from rich.console import Console

from bench.ports import free_port
from demo.ending import DemoFailed, tell
from demo.processes import Child
from streamd.base.progress import ProgressLine
from streamd.clients.sessions import DeviceStore
from streamd.clients.sessions.limit import LIMIT, VARIABLE, limit_of_option, limit_of_variable
from streamd.clients.sessions.session_keys import PACKET_ID_MAX

DEVICES = 200
MESSAGES = 100
PUBLISHERS = 8
UNDER_WAY_MAX = 50  # messages of a publisher that are not yet answered
RUN_SECONDS_MAX = 240

Numbers = list[int]


class Line:
    """A connection to the broker that is made again when it breaks."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def open(self) -> None:
        """Connect, as soon as somebody listens."""
        while True:
            try:
                self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
                return
            except OSError:
                await asyncio.sleep(0.05)

    def send(self, *words: object) -> None:
        """Send a line; what is lost is sent again later."""
        self.writer.write(json.dumps(words).encode() + b"\n")

    async def receive(self) -> list[Any] | None:
        """Return the next line; None when the connection is gone."""
        try:
            line = await self.reader.readline()
        except OSError:
            return None
        if not line.endswith(b"\n"):
            return None
        words: list[Any] = json.loads(line)
        return words


class Device:
    """A device: what it has got, and the packet IDs that it has to remember until they are released."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.got: Numbers = []
        self.unreleased: set[int] = set()
        self.packet_ids: Numbers = []

    async def come_online(self, demo: "SessionsDemo") -> None:
        """Get all that waits, however often the broker goes away meanwhile."""
        line = Line(demo.broker_port)
        while True:
            await line.open()
            line.send("connect", self.name)
            left: int | None = None
            removed = 0
            while left is None or removed < left:
                words = await line.receive()
                if words is None:
                    break
                kind, number = words[:2]
                if kind == "message":
                    if number not in self.unreleased:  # else it is here, and comes a second time
                        self.unreleased.add(number)
                        self.got.append(int(words[2]))
                        self.packet_ids.append(number)
                    line.send("received", number)
                elif kind == "release":
                    self.unreleased.discard(number)
                    line.send("complete", number)
                elif kind == "removed":
                    removed += 1
                    demo.delivered += 1
                else:
                    left = number
            line.writer.close()
            if left is not None and removed >= left:
                return


class SessionsDemo:
    """One run: the server, the broker, publishers, devices, and the kills."""

    def __init__(self, directory: Path, console: Console, devices: int, messages: int, limit: int = LIMIT) -> None:
        self.directory = directory
        self.console = console
        self.messages = messages
        self.limit = limit
        self.devices = [Device(f"device-{number:03d}") for number in range(devices)]
        self.stored = self.delivered = 0
        self.children: list[Child] = []
        self.progress = ProgressLine("demo")
        self.server_port, self.broker_port = free_port(), free_port()
        self.kills = {"broker": 0, "server": 0}
        self.deadline = time.monotonic() + RUN_SECONDS_MAX

    def say(self, text: str) -> None:
        """Print a line of the story."""
        self.progress.end()
        self.console.print(text, highlight=False, soft_wrap=True)

    # -- processes ----------------------------------------------------------------------------------------------------

    def start(self, name: str, module: str, ready: str, *words: str) -> Child:
        """Start a process and wait until it serves."""
        child = Child(name, module, words, self.directory / f"{name}-{len(self.children)}.log")
        self.children.append(child)
        child.wait_for(ready, seconds=30)
        return child

    def start_server(self) -> None:
        """Start streamd on what its journal holds."""
        words = ("serve", "--port", str(self.server_port), "--bind", "127.0.0.1", "--dir", str(self.directory / "data"))
        self.server = self.start("server", "streamd", "Ready to accept connections", *words)

    def start_broker(self) -> None:
        """Start the broker, which knows nothing of what was before."""
        words = ("--port", str(self.broker_port), "--server-port", str(self.server_port), "--limit", str(self.limit))
        self.broker = self.start("broker", "demo.sessions_broker", "Ready", *words)

    async def kill(self, which: str) -> None:
        """End broker or server with signal 9, and start it again."""
        self.kills[which] += 1
        (self.broker if which == "broker" else self.server).kill()
        self.say(f"[bold]killed the {which} (kill -9)[/], and started it again")
        await asyncio.to_thread(self.start_broker if which == "broker" else self.start_server)

    # -- the story ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Store all messages, then deliver them; broker and server are killed in the middle of both."""
        self.start_server()
        with redis.Redis(port=self.server_port) as client, DeviceStore(client, self.limit) as store:
            for device in self.devices:
                store.buffered.set_last_packet_id(device.name, PACKET_ID_MAX - self.messages // 2)
        self.start_broker()
        total = self.messages * len(self.devices)
        self.say(
            f"{len(self.devices)} devices are offline; {total:,} messages come for them, "
            f"and packet ID {PACKET_ID_MAX} comes half way"
        )
        publishing = [self.publish(self.devices[number::PUBLISHERS]) for number in range(PUBLISHERS)]
        await self.while_killing(publishing, lambda: self.stored / total)
        self.say(f"stored {self.stored:,}; all devices come online")
        await self.while_killing([device.come_online(self) for device in self.devices], lambda: self.delivered / total)

    async def while_killing(self, work: Iterable[Awaitable[None]], share_done: Callable[[], float]) -> None:
        """Run tasks to their end; at a third of the work the broker is killed, at two thirds the server."""
        everything = asyncio.ensure_future(asyncio.gather(*work))
        try:
            for share, which in ((0.33, "broker"), (0.66, "server")):
                while share_done() < share and not everything.done():
                    await self.pause(everything)
                await self.kill(which)
            while not everything.done():
                await self.pause(everything)
        except BaseException:  # Ctrl-C among them: what the tasks say of it is no news
            everything.cancel()
            await asyncio.wait([everything])
            everything.cancelled() or everything.exception()
            raise
        everything.result()

    async def pause(self, everything: asyncio.Future[list[None]]) -> None:
        """Wait a moment, and notice what failed."""
        for child in (self.server, self.broker):
            child.check()
        if time.monotonic() > self.deadline:
            everything.cancel()
            raise DemoFailed(f"not done after {RUN_SECONDS_MAX} seconds")
        total = self.messages * len(self.devices)
        self.progress.say(f"stored {self.stored:,} of {total:,}, delivered {self.delivered:,}")
        await asyncio.wait([everything], timeout=0.01)

    async def publish(self, devices: list[Device]) -> None:
        """Send every device its messages in turn; what is not answered when a connection breaks is sent again."""
        line = Line(self.broker_port)
        to_send = [(device.name, number) for number in range(1, self.messages + 1) for device in devices]
        unanswered: dict[tuple[str, int], None] = {}
        sent = 0
        await line.open()
        while sent < len(to_send) or unanswered:
            while sent < len(to_send) and len(unanswered) < UNDER_WAY_MAX:
                name, number = to_send[sent]
                line.send("publish", name, number, str(number))
                unanswered[name, number] = None
                sent += 1
            words = await line.receive()
            if words is None:
                line.writer.close()
                await line.open()
                for name, number in unanswered:
                    line.send("publish", name, number, str(number))
                continue
            if (words[1], words[2]) in unanswered:
                del unanswered[words[1], words[2]]
                self.stored += 1
        line.writer.close()

    def report(self) -> int:
        """Print the verdict; return 0 when nothing is wrong."""
        wanted = [*range(1, self.messages + 1)]
        lost = sum(len(set(wanted) - set(device.got)) for device in self.devices)
        twice = sum(len(device.got) - len(set(device.got)) for device in self.devices)
        disordered = sum(device.got != sorted(device.got) for device in self.devices)
        wrapped = sum(PACKET_ID_MAX in device.packet_ids and 1 in device.packet_ids for device in self.devices)
        with redis.Redis(port=self.server_port) as client:
            left = client.dbsize() - 2 * len(self.devices)  # the last packet ID of each, and its time
        got = sum(len(device.got) for device in self.devices)
        self.say(
            f"{got:,} messages arrived; packet IDs began again at 1 on {wrapped} devices; "
            f"broker killed {self.kills['broker']} times, server {self.kills['server']} times"
        )
        order = "kept" if not disordered else f"broken on {disordered} devices"
        self.console.print(f"lost {lost}, twice {twice}, order {order}, left behind {left}", style="bold")
        return 0 if lost == twice == disordered == left == 0 and wrapped == len(self.devices) else 1

    def end(self) -> None:
        """End everything that was started."""
        self.progress.end()
        for child in reversed(self.children):
            child.stop()


def limit_of(option: str | None, messages: int) -> int:
    """Return the limit of the option, or of the variable. Raises: ValueError, also if the demo would lose messages."""
    limit = limit_of_variable(os.environ) if option is None else limit_of_option("--limit", option)
    if limit < messages:
        source = f"{VARIABLE}=" if option is None and VARIABLE in os.environ else "--limit "
        raise ValueError(f"{source}{limit}: the demo keeps {messages} messages for each device; give no lower limit")
    return limit


def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.sessions", description="the demo of sessions; takes less than a minute"
    )
    parser.add_argument("--devices", type=int, default=DEVICES, help=f"how many are offline (default {DEVICES})")
    parser.add_argument("--messages", type=int, default=MESSAGES, help=f"for each of them (default {MESSAGES})")
    parser.add_argument(
        "--limit",
        metavar="N",
        help=f"the number of messages that a session keeps (default: the variable {VARIABLE}, else {LIMIT})",
    )
    parser.add_argument("--keep", action="store_true", help="keep the directory with journal and logs")
    options = parser.parse_args()
    try:
        limit = limit_of(options.limit, options.messages)
    except ValueError as error:
        print(f"demo.sessions: {error}", file=sys.stderr)
        return 2
    console = Console()

    def story(directory: Path) -> int:
        demo = SessionsDemo(directory, console, options.devices, options.messages, limit)
        try:
            asyncio.run(demo.run())
            return demo.report()
        finally:
            demo.end()

    return tell(story, console, "sessions", "journal and logs", options.keep)


if __name__ == "__main__":
    sys.exit(main())

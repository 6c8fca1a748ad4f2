"""Makes the pictures of `streamd tail` and `streamd top` in docs/pictures/, from a real terminal (tmux)."""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import redis
from rich.console import Console
from rich.text import Text

from streamd.base.clock import Clock, ManualClock
from streamd.testing import EmbeddedServer

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
WIDTH, HEIGHT = 118, 26
TIMEOUT_S = 60


class Terminal:
    """A tmux with one shell in it, which knows `streamd` and the address of a server."""

    def __init__(self, url: str) -> None:
        self._directory = tempfile.TemporaryDirectory()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        self._environment = {
            "PATH": path, "HOME": self._directory.name, "STREAMD_URL": url, "TZ": "UTC", "LANG": "C.UTF-8",
            "TMUX_TMPDIR": self._directory.name, "COLORTERM": "truecolor", "BASH_SILENCE_DEPRECATION_WARNING": "1",
        }  # fmt: skip

    def __enter__(self) -> "Terminal":
        shell = ("new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), "env PS1='$ ' bash --noprofile --norc")
        self._tmux("-f", "/dev/null", *shell)
        try:
            self._wait_until(lambda: self.screen().startswith("$"), "a prompt")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._tmux("kill-server")
        self._directory.cleanup()

    def type(self, command: str, until: Callable[[str], bool]) -> str:
        """Type a command; return the screen, with its colours, once it shows the expected text."""
        self._tmux("send-keys", "-l", command)
        self._tmux("send-keys", "Enter")
        self._wait_until(lambda: until(self.screen()), f"what `{command}` shows")
        return self.screen("-e")

    def screen(self, *options: str) -> str:
        """Return the screen."""
        return self._tmux("capture-pane", "-p", *options)

    def _tmux(self, *words: str) -> str:
        command = ["tmux", *words]
        done = subprocess.run(command, env=self._environment, check=True, capture_output=True, timeout=TIMEOUT_S)
        return done.stdout.decode()

    def _wait_until(self, is_there: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_there():
            if time.monotonic() > deadline:
                raise SystemExit(f"pictures: the terminal does not show {what}:\n{self.screen()}")
            time.sleep(0.1)


def render(screen: str, title: str) -> str:
    """Return a terminal's screen as an SVG without external resources: the reader's own font will do."""
    lines = screen.rstrip().splitlines()
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    drawn = console.export_svg(title=title, unique_id=f"terminal-{title.split()[1]}")
    return re.sub(r"\n *@font-face \{.*?\n *\}", "", drawn, flags=re.DOTALL)


def picture_of_tail() -> str:
    """Return a screen of `streamd tail`: a shop's orders, and their state in the billing group."""
    with EmbeddedServer(ManualClock(1_795_248_000_000)) as server, server.client() as client:
        client.xgroup_create("orders", "billing", id="0", mkstream=True)
        for number in range(14):
            server.advance(milliseconds=400 + 137 * number % 900)
            fields = {"order": f"order-{1001 + number}", "cents": 1990 + 730 * (number * 7 % 11)}
            client.xadd("orders", fields, idmp=("svc-7", f"order-{1001 + number}"))
        client.xreadgroup("billing", "ann", {"orders": ">"}, count=8)
        server.advance(seconds=12)
        client.xreadgroup("billing", "bob", {"orders": ">"}, count=2)
        client.xack("orders", "billing", *[entry_id for entry_id, _ in client.xrange("orders", count=6)])
        with Terminal(server.url.removesuffix("/0")) as terminal:
            command = "streamd tail orders --from earliest --group billing"
            screen = terminal.type(command, lambda shown: "order-1014" in shown)
    return render(screen, "streamd tail")


def picture_of_top() -> str:
    """Return a screen of `streamd top`, for a shop at work."""
    over = threading.Event()
    with EmbeddedServer(Clock()) as server, server.client(client_name="shop") as client:
        working = threading.Thread(target=shop, args=(client, over))
        working.start()
        try:
            with Terminal(server.url.removesuffix("/0")) as terminal:
                views = set[str]()

                def is_busy(shown: str) -> bool:
                    views.update(re.findall(r"[\d,.]+ commands/s", shown))
                    return len(views) > 3  # then rates are of some seconds

                screen = terminal.type("streamd top --interval 1", is_busy)
        finally:
            over.set()
            working.join()
    return render(screen, "streamd top")


def shop(client: "redis.Redis", over: threading.Event) -> None:
    """Be busy: write orders and their consequences, some of them twice, and read them by two groups."""
    names = ("orders", "payments", "shipments", "mails")
    for name in names:
        client.xgroup_create(name, "archive", id="0", mkstream=True)
    client.xgroup_create("orders", "billing", id="0")
    for number in range(1_000_000):
        for place, name in enumerate(names):
            if number % (place + 1) == 0:
                order = f"order-{number - (number % 50 == 0)}"  # now and then a producer tries again
                client.xadd(name, {"order": order}, idmp=("svc-7", order))
            if number % 5:
                client.xreadgroup("archive", "eve", {name: ">"}, noack=True)
        taken = client.xreadgroup("billing", "ann", {"orders": ">"}, count=1) if number % 9 else []
        if taken and number % 20:
            client.xack("orders", "billing", taken[0][1][0][0])
        if over.wait(0.02):
            return


def main() -> int:
    """Make the pictures; return an exit code."""
    if shutil.which("tmux") is None:
        print("pictures: there is no tmux here; install it (Debian: apt install tmux)", file=sys.stderr)
        return 1
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, make in (("terminal-tail.svg", picture_of_tail), ("terminal-top.svg", picture_of_top)):
        (PICTURES / name).write_text(make(), encoding="utf-8")
        print(PICTURES / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

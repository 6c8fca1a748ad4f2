"""Makes the pictures of `streamd ui` in docs/pictures/, for light and for dark pages, with headless Chromium."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import uvicorn

from streamd.base.clock import ManualClock
from streamd.clients.ui.page_guard import Rules
from streamd.clients.ui.pages import application
from streamd.clients.ui.serving import listen
from streamd.clients.ui.source import Source
from streamd.testing import EmbeddedServer

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SHOTS = {
    "ui-overview.png": ("", "1200,760"),
    "ui-streams.png": ("streams", "1200,620"),
    "ui-stream-phone.png": ("stream?key=orders", "500,900"),
}
TIMEOUT_S = 60


def fill(server: EmbeddedServer) -> None:
    """Write the data of a shop's server."""
    client = server.client()
    names = ("carts", "clicks", "invoices", "mails", "payments", "returns", "shipments")
    for number in range(400):
        server.advance(milliseconds=250)
        name = names[number * number // 3 % len(names)]
        client.xadd(name, {"n": number, "customer": f"c{number % 97}"}, idmp=("shop-1", f"{name}-{number}".encode()))
        order = {"order": f"order-{1000 + number}", "cents": 1990 + 10 * number, "customer": f"c{number % 97}"}
        for _ in range(2 if number % 40 == 0 else 1):  # now and then a producer tries again
            client.xadd("orders", order, idmp=("svc-7", f"order-{1000 + number}".encode()))
    client.xgroup_create("orders", "billing", id="0")
    client.xreadgroup("billing", "ann", {"orders": ">"}, count=50)


def photograph(url: str, shots: dict[str, tuple[str, str]], chromium: str, is_dark: bool) -> None:
    """Make the pictures for light pages, or for dark ones, each as a page shows itself at the first look.

    shots: the path of the page and the size of the window for each file.
    """
    with listen("127.0.0.1", 0) as listening:
        app = application(Source(url), Rules())
        page = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        serving = threading.Thread(target=page.run, kwargs={"sockets": [listening]}, daemon=True)
        serving.start()
        for name, (path, size) in shots.items():
            file = PICTURES / (name.replace(".png", "-dark.png") if is_dark else name)
            colours = f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}"]
            address = f"http://127.0.0.1:{listening.getsockname()[1]}/{path}"
            command = [chromium, *options, colours, f"--screenshot={file}", address]
            subprocess.run(command, check=True, timeout=TIMEOUT_S, capture_output=True)
            print(file)
        page.should_exit = True
        serving.join(TIMEOUT_S)


def chromium_here() -> str | None:
    """Return the path of Chromium; without it, say how to install it, and return None."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        print("pictures: there is no chromium here; install it (Debian: apt install chromium)", file=sys.stderr)
    return found


def main() -> int:
    """Make the pictures; return an exit code."""
    chromium = chromium_here()
    if chromium is None:
        return 1
    PICTURES.mkdir(parents=True, exist_ok=True)
    with EmbeddedServer(ManualClock(1_767_189_600_000)) as server:
        fill(server)
        for is_dark in (False, True):
            photograph(server.url, SHOTS, chromium, is_dark)
    return 0


if __name__ == "__main__":
    sys.exit(main())

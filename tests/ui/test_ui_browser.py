"""The page in headless Chromium: it fits at each width, goes on by itself, and its policy blocks nothing."""

import json
import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator

import pytest
import uvicorn

from streamd.clients.ui.page_guard import Rules
from streamd.clients.ui.pages import application
from streamd.clients.ui.serving import listen
from streamd.clients.ui.source import Source

pytestmark = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")), reason="there is no chromium with chromedriver"
)
PHONE_WIDTH = 390
PHONE = {"deviceMetrics": {"width": PHONE_WIDTH, "height": 844, "pixelRatio": 2}}
QUIET = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
OPTIONS = {"args": ["--headless", "--no-sandbox", "--disable-gpu", *QUIET, "--disable-sync"]}
# Done when a text is there: the page itself says when, nobody waits for a time.
UNTIL = """
const [text, done] = arguments, is = () => document.body.innerText.includes(text);
if (is()) done(true);
else new MutationObserver(() => is() && done(true)).observe(document.body, {childList: true, subtree: true});
"""


class Browser:
    """A session of chromedriver."""

    def __init__(self, port: int, width: int) -> None:
        self.address = f"http://127.0.0.1:{port}/session"
        emulated = {"mobileEmulation": PHONE} if width == PHONE_WIDTH else {}
        options = {"args": [*OPTIONS["args"], f"--window-size={width},900"], **emulated}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.address += "/" + self.call("POST", "", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def call(self, method: str, path: str, body: dict | None = None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)["value"]

    def run(self, script: str):
        return self.call("POST", "/execute/sync", {"script": script, "args": []})

    def wait_for(self, text: str) -> bool:
        return self.call("POST", "/execute/async", {"script": UNTIL, "args": [text]})


# What sticks out of the page to the right, so that a reader has to scroll. (A phone's innerWidth grows with it.)
TOO_WIDE = """
return [document.documentElement.scrollWidth > WIDTH ? ["the page"] : [],
  [...document.querySelectorAll("main *, header *")].filter(one => one.getBoundingClientRect().right > WIDTH + 1)
    .map(one => one.outerHTML.slice(0, 80))].flat()
"""
# The distance between the button and the table below it, and the lines that the name of a field takes.
GAP = """
return document.querySelector("table").getBoundingClientRect().top
  - document.querySelector("button.live").getBoundingClientRect().bottom
"""
LINES = """
const name = [...document.querySelectorAll(".fields dt")].find(one => one.textContent.startsWith("temperature_"));
return name.getClientRects()[0].height / parseFloat(getComputedStyle(name).lineHeight);
"""


@pytest.fixture
def browser(request) -> Iterator[Browser]:
    """A browser of a phone's width, or of the width that the test names."""
    driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        port = next(found[1] for line in driver.stdout if (found := re.search(r"successfully on port (\d+)", line)))
        session = Browser(int(port), getattr(request, "param", PHONE_WIDTH))
        yield session
        session.call("DELETE", "")
    finally:
        driver.terminate()
        driver.communicate(timeout=60)


@pytest.fixture
def address(streamd_client, streamd_server) -> Iterator[str]:
    source = Source(streamd_server.url)
    with listen("127.0.0.1", 0) as listening:
        page = uvicorn.Server(uvicorn.Config(application(source, Rules()), log_level="warning", lifespan="off"))
        thread = threading.Thread(target=page.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        page.should_exit = True
        thread.join(10)
    source.close()


def test_on_a_phone_the_page_fits_and_new_entries_come_by_themselves(browser, address, streamd_client):
    for number in range(5):
        streamd_client.xadd("orders", {"n": number, "long": "x" * 200})
    for path, wanted in (("/stream?key=orders", "tail-comes"), ("/", "list-comes")):
        browser.call("POST", "/url", {"url": address + path})
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        browser.run("const live = document.querySelector('button[data-live]'); live.focus(); live.click()")
        streamd_client.xadd("orders" if "key" in path else wanted, {"n": wanted})
        assert browser.wait_for(wanted)
    assert browser.call("POST", "/se/log", {"type": "browser"}) == []


@pytest.mark.parametrize(
    ("browser", "width"), [(width, width) for width in (PHONE_WIDTH, 768, 1_280)], indirect=["browser"]
)
def test_every_page_fits_at_each_width_whatever_its_names_are(browser, address, streamd_client, width):
    key, group, consumer = "n" * 300, "g" * 300, "c" * 300
    streamd_client.config_set("slowlog-log-slower-than", 0)
    fields = {"temperature_of_the_upper_sensor": "21", "w" * 200: "v" * 400}
    streamd_client.xadd(key, fields, idmp=("svc-7", b"1"))
    streamd_client.xgroup_create(key, group, id="0")
    streamd_client.xreadgroup(group, consumer, {key: ">"})
    streamd_client.config_set("slowlog-log-slower-than", 10_000)
    paths = ["/", "/streams", "/groups/all", f"/stream?key={key}", f"/groups?key={key}", "/idempotence", "/slow-log"]
    for path in [*paths, f"/group?key={key}&group={group}"]:
        browser.call("POST", "/url", {"url": address + path})
        assert browser.run("return innerWidth") == width, path
        assert browser.run(TOO_WIDE.replace("WIDTH", str(width))) == [], path
        if path == "/slow-log":
            assert browser.run(GAP) >= 8
        if path.startswith("/stream?"):
            assert browser.run(LINES) < 1.5
    assert browser.call("POST", "/se/log", {"type": "browser"}) == []


def test_all_figures_of_a_live_stream_are_renewed(browser, address, streamd_client):
    streamd_client.xadd("orders", {"n": 1}, id="1-0")
    browser.call("POST", "/url", {"url": address + "/stream?key=orders"})
    browser.run("document.querySelector('button[data-live]').click()")
    streamd_client.xadd("orders", {"blob": "x" * 100_000}, id="7-7")
    assert browser.wait_for("7-7\n")
    figures = browser.run("return document.getElementById('facts').innerText")
    assert "Entries\n2" in figures
    assert "Last ID\n7-7" in figures
    assert "kB" in figures

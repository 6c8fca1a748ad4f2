"""The site of documents in headless Chromium: it fits a phone, its search finds, and it asks no other host.

`make docs` runs this on what it has built, in the directory STREAMD_SITE; otherwise it is skipped.
"""

import os
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.documents.blocks import ROOT
from tests.ui.test_ui_browser import Browser, browser  # noqa: F401  (a fixture)
from tests.ui.test_ui_browser import pytestmark as needs_chromium

SITE = os.environ.get("STREAMD_SITE", "")
pytestmark = [needs_chromium, pytest.mark.skipif(not SITE, reason="make docs runs this on what it has built")]
# Questions of a newcomer, and a page that has to be among the answers.
QUESTIONS = {
    "make my producer idempotent": "idempotence.html",
    "read in spark": "spark.html",
    "what happens if it crashes": "guarantees.html",
    "XAUTOCLAIM": "commands/stream.html#xautoclaim",
    "maxmemory": "operations.html",
}
ASK = """
const [question, page, done] = arguments;
const bare = one => one.href.replace(/[?][^#]*/, '');  // without the words that it is to highlight
const input = document.querySelector('[data-md-component=search-query]');
document.querySelector('label[for=__search]').click();
const has = () => [...document.querySelectorAll('.md-search-result__link')].some(one => bare(one).endsWith(page));
new MutationObserver(() => has() && done(true)).observe(document.body, {childList: true, subtree: true});
input.focus();
input.value = question;
for (const name of ['keyup', 'input', 'change']) input.dispatchEvent(new Event(name, {bubbles: true}));
setTimeout(() => done([...document.querySelectorAll('.md-search-result__link')].map(bare)), 20000);
"""
# Lines of code that reach under the button beside them.
UNDER_A_BUTTON = """
return [...document.querySelectorAll(".highlight pre")].filter(one => {
  const button = one.querySelector(".md-code__nav");
  const code = one.querySelector("code").getBoundingClientRect();
  return !button || code.right > button.getBoundingClientRect().left;
}).map(one => one.innerText.slice(0, 60))
"""
# The colours of a page, and the files of the pictures that it shows.
SHOWN = """
document.body.setAttribute("data-md-color-scheme", arguments[0]);
return [getComputedStyle(document.body).colorScheme, [...document.querySelectorAll(".md-content img")]
  .filter(one => getComputedStyle(one).display !== "none").map(one => one.src.replace(/.*[/]|#.*/g, ""))]
"""
# Of each page the first picture that is shown: one whose colours ask for the scheme, and one of a pair.
PICTURES = ("idempotence.html", "ui.html")
SWITCH = """
[...document.querySelectorAll('[data-md-component=palette] label')].find(one => one.offsetWidth).click();
return document.body.dataset.mdColorScheme
"""
PICTURE = "return [...document.images].find(one => one.offsetWidth)"
# The brightness, 0 to 255, of a screenshot's pixel at 60 of 100 of its width, close to its upper edge.
BRIGHTNESS = """
const [screenshot, done] = arguments, image = new Image();
image.onload = () => {
  const canvas = document.createElement('canvas').getContext('2d');
  canvas.drawImage(image, -Math.round(image.width * 0.6), -5);
  done(canvas.getImageData(0, 0, 1, 1).data[1]);
};
image.src = 'data:image/png;base64,' + screenshot;
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(10)


def pages() -> list[str]:
    return sorted(str(path.relative_to(SITE)) for path in Path(SITE).rglob("*.html") if path.name != "404.html")


def test_every_page_fits_a_phone_and_asks_no_other_host(browser: Browser, address: str):  # noqa: F811
    assert len(pages()) > 30
    faults = {}
    for page in pages():
        browser.call("POST", "/url", {"url": f"{address}/{page}"})
        fits = browser.run("return document.documentElement.scrollWidth <= innerWidth")
        asked = browser.run("return performance.getEntriesByType('resource').map(one => one.name)")
        broken = browser.run(
            "return [...document.images].filter(one => one.complete && !one.naturalWidth).map(i => i.src)"
        )
        foreign = [name for name in asked if not name.startswith(address) and not name.startswith("data:")]
        log = [one["message"] for one in browser.call("POST", "/se/log", {"type": "browser"})]
        if not fits or foreign or broken or log:
            faults[page] = (fits, foreign, broken, log)
    assert faults == {}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_search_finds_the_page(browser: Browser, address: str, question: str):  # noqa: F811
    browser.call("POST", "/timeouts", {"script": 30_000})
    browser.call("POST", "/url", {"url": f"{address}/index.html"})
    found = browser.call("POST", "/execute/async", {"script": ASK, "args": [question, QUESTIONS[question]]})
    assert found is True


@pytest.mark.parametrize("browser", [390, 768, 1_400], indirect=True)
def test_no_line_of_code_is_cut_under_its_button(browser: Browser, address: str):  # noqa: F811
    for page in ("index.html", "start.html", "spark.html", "operations.html"):
        browser.call("POST", "/url", {"url": f"{address}/{page}"})
        assert browser.run("return document.querySelectorAll('.highlight pre').length") > 1
        assert browser.run(UNDER_A_BUTTON) == [], page


@pytest.mark.parametrize(
    ("scheme", "colours", "ending"), [("default", "light", ".png"), ("slate", "dark", "-dark.png")]
)
def test_pictures_follow_the_switch_of_the_reader(browser: Browser, address, scheme, colours, ending):  # noqa: F811
    browser.call("POST", "/url", {"url": f"{address}/ui.html"})
    shown = browser.call("POST", "/execute/sync", {"script": SHOWN, "args": [scheme]})
    names = re.findall(r'src="pictures/([\w-]+)\.png"', (ROOT / "docs" / "ui.md").read_text(encoding="utf-8"))
    assert "ui-overview" in names
    assert shown == [colours, [f"{name}{ending}" for name in names]]


@pytest.mark.parametrize("page", PICTURES)
@pytest.mark.parametrize("preferred", ["light", "dark"])
def test_a_picture_follows_the_switch_whatever_the_system_prefers(browser: Browser, address, page, preferred):  # noqa: F811
    features = [{"name": "prefers-color-scheme", "value": preferred}]
    browser.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}})
    browser.call("POST", "/url", {"url": f"{address}/{page}"})
    schemes = {}
    for _ in range(2):
        scheme = browser.run(SWITCH)
        (place,) = browser.run(PICTURE).values()
        screenshot = browser.call("GET", f"/element/{place}/screenshot")
        schemes[scheme] = browser.call("POST", "/execute/async", {"script": BRIGHTNESS, "args": [screenshot]})
    assert schemes["slate"] < 60
    assert schemes["default"] > 200


@pytest.mark.parametrize("browser", [1_400], indirect=True)
@pytest.mark.parametrize("page", ["index.html", "commands/stream.html"])
def test_a_page_that_is_opened_as_a_file_says_how_to_serve_the_site(browser: Browser, address: str, page: str):  # noqa: F811
    said = "return document.body.innerText.includes('To serve the site: make docs-serve')"
    browser.call("POST", "/url", {"url": f"{address}/{page}"})
    assert not browser.run(said)
    browser.call("POST", "/url", {"url": (Path(SITE).resolve() / page).as_uri()})
    assert browser.run(said)
    assert {browser.run(SWITCH), browser.run(SWITCH)} == {"default", "slate"}
    assert browser.call("POST", "/se/log", {"type": "browser"}) == []


def test_a_bar_in_the_code_of_a_table_has_no_backslash(browser: Browser, address: str):  # noqa: F811
    for page, code in (("terminal", "streamd completion fish | source"), ("security", "+command|subcommand")):
        browser.call("POST", "/url", {"url": f"{address}/{page}.html"})
        codes = browser.run("return [...document.querySelectorAll('td code')].map(one => one.innerText)")
        assert code in codes
        assert [one for one in codes if r"\|" in one] == []

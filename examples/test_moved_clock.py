"""Tests with a clock that the test moves: what takes a day in production takes no time here.

    python -m pytest examples/test_moved_clock.py          (or: python examples/test_moved_clock.py [--help])

Wherever streamd is installed, pytest knows the fixtures `streamd_server`, a server inside the test process whose clock
stands until `streamd_server.advance(seconds=...)`, and `streamd_client`, a redis-py client of it. No test sleeps, and
none fails because a machine was slow. What is tested here is the small shop on top.
"""

import argparse
import subprocess
import sys
import threading

import pytest
import redis

from streamd.testing import EmbeddedServer

DAY_S = 86_400


# --- the shop: what would stand in a module of its own ---------------------------------------------------------------


class Shop:
    """Takes orders, reserves carts for half an hour, and has orders packed by a group of packers."""

    CART_S, PACKER_IS_GONE_S = 1_800, 600

    def __init__(self, client: "redis.Redis") -> None:
        self._client = client
        client.xgroup_create("orders", "packers", id="0", mkstream=True)
        client.execute_command("XCFGSET", "orders", "IDMP-DURATION", DAY_S, "IDMP-MAXSIZE", 10_000)

    def order(self, number: int) -> str:
        """Take an order, or know it again within a day; return its entry ID."""
        return self._client.xadd("orders", {"order": number}, idmp=("web", f"order-{number}"))  # type: ignore[return-value]

    def reserve(self, customer: str) -> None:
        """Hold a customer's cart."""
        self._client.set(f"cart:{customer}", "full", ex=self.CART_S)

    def has_cart(self, customer: str) -> bool:
        """Say whether a customer's cart is still held."""
        return bool(self._client.exists(f"cart:{customer}"))

    def next_order(self, packer: str) -> str | None:
        """Give a packer an order: one whose packer is gone, or a new one."""
        idle_ms = self.PACKER_IS_GONE_S * 1000
        _, entries, _ = self._client.xautoclaim("orders", "packers", packer, min_idle_time=idle_ms, count=1)
        if not entries:
            new = self._client.xreadgroup("packers", packer, {"orders": ">"}, count=1)
            entries = new[0][1] if new else []
        return entries[0][1]["order"] if entries else None

    def wait_for_order(self, since: str) -> object:
        """Wait up to a minute for an order that came after that one."""
        return self._client.xread({"orders": since}, block=60_000)


# --- its tests -------------------------------------------------------------------------------------------------------


@pytest.fixture
def client(streamd_server: EmbeddedServer) -> "redis.Redis":
    # RESP2, in whose form replies are lists in all versions of redis-py.
    return streamd_server.client(decode_responses=True, protocol=2)


@pytest.fixture
def shop(client: "redis.Redis") -> Shop:
    return Shop(client)


@pytest.mark.parametrize(("waited_s", "entries"), [(DAY_S - 1, 1), (DAY_S, 2)])
def test_an_order_that_is_sent_again_is_known_for_a_day(shop, client, streamd_server, waited_s, entries):
    first = shop.order(1001)
    streamd_server.advance(seconds=waited_s)
    assert (shop.order(1001) == first) == (entries == 1)
    assert client.xlen("orders") == entries


def test_a_cart_is_held_for_half_an_hour(shop, streamd_server):
    shop.reserve("ann")
    streamd_server.advance(seconds=1_799)
    assert shop.has_cart("ann")
    streamd_server.advance(seconds=1)
    assert not shop.has_cart("ann")


def test_an_order_whose_packer_is_gone_for_ten_minutes_is_given_to_another(shop, streamd_server):
    shop.order(1001)
    assert shop.next_order("bob") == "1001"
    streamd_server.advance(seconds=599)
    assert shop.next_order("cid") is None
    streamd_server.advance(seconds=1)
    assert shop.next_order("cid") == "1001"


def test_who_waits_for_an_order_is_answered_after_a_minute_that_nobody_waited(shop, client, streamd_server):
    last = shop.order(1001)
    answers: list[object] = []
    waiting = threading.Thread(target=lambda: answers.append(shop.wait_for_order(last)))
    waiting.start()
    while not client.info("clients")["blocked_clients"]:
        pass  # until the server has the request: the clock is not to be moved before
    streamd_server.advance(seconds=60)
    waiting.join(10)
    assert answers in ([None], [[]], [{}])


def main() -> int:
    """Run the tests, and say each one's name; return pytest's exit code."""
    parser = argparse.ArgumentParser(description="tests of a small shop, with a clock that the tests move")
    parser.add_argument("-k", metavar="WORDS", default="", help="only tests with such words in their names")
    arguments = parser.parse_args()
    return subprocess.run([sys.executable, "-m", "pytest", "-v", "-k", arguments.k, __file__], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

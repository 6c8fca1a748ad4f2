"""The feed of the demo: the orders of a chain of shops, the same at every run."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

Order = dict[str, str | int]

# shop -> (country, currency, how much of the trade it has)
SHOPS = {
    "Amsterdam": ("Netherlands", "EUR", 15),
    "Basel": ("Switzerland", "CHF", 7),
    "Glasgow": ("United Kingdom", "GBP", 11),
    "Lisbon": ("Portugal", "EUR", 18),
    "Malmö": ("Sweden", "SEK", 9),
    "Milan": ("Italy", "EUR", 21),
    "Portland": ("United States", "USD", 13),
    "Sofia": ("Bulgaria", "EUR", 6),
}
# euro cents per million cents of each currency: whole numbers, so that Spark and Python agree to the cent
EURO_RATES = {"EUR": 1_000_000, "CHF": 1_068_000, "GBP": 1_143_000, "SEK": 91_200, "USD": 862_500}
# item -> euro cents apiece
ITEMS = {"beans 1 kg": 2_390, "filter": 690, "grinder": 14_900, "kettle": 7_950, "mug": 1_250, "scale": 4_400}


def orders(count: int, seed: int = 20) -> Iterator[Order]:
    """Yield this many orders; the same seed gives the same orders."""
    rng = random.Random(seed)
    shops = [shop for shop, (_, _, share) in SHOPS.items() for _ in range(share)]
    items = list(ITEMS)
    for number in range(count):
        shop = shops[int(rng.random() * len(shops))]
        item = items[int(rng.random() * rng.random() * len(items))]
        currency = SHOPS[shop][1]
        yield {
            "order": f"o-{number:06d}",
            "shop": shop,
            "item": item,
            "quantity": 1 + int(rng.random() * rng.random() * 5),
            "cents": ITEMS[item] * 1_000_000 // EURO_RATES[currency],
            "currency": currency,
        }


def write(path: Path, count: int) -> None:
    """Write the feed as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        for order in orders(count):
            file.write(json.dumps(order, ensure_ascii=False) + "\n")


def read(path: Path) -> Iterator[Order]:
    """Yield the orders of a feed file."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def as_fields(order: Order) -> dict[str, str]:
    """Return the fields of an order's entry: all values as text, as a stream holds them."""
    return {name: str(value) for name, value in order.items()}


def enriched(fields: dict[str, str]) -> dict[str, str]:
    """Return the Spark job's result for an entry's fields: the same arithmetic as demo/spark_job.py, in Python."""
    eur_cents = (int(fields["quantity"]) * int(fields["cents"]) * EURO_RATES[fields["currency"]] + 500_000) // 1_000_000
    return {
        "order": fields["order"],
        "shop": fields["shop"],
        "country": SHOPS[fields["shop"]][0],
        "item": fields["item"],
        "eur_cents": str(eur_cents),
        "size": "large" if eur_cents >= 10_000 else "small",
    }

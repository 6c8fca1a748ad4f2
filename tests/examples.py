"""How many examples a property is tried on."""

import os

SHARE = float(os.environ.get("EXAMPLES", "0.4"))


def examples(count: int) -> int:
    """Return the share of `count` that the variable EXAMPLES says: `make properties` tries all, `make test` less."""
    return max(1, round(SHARE * count))

"""The tables of the server's metrics in docs/operations.md have all of streamd's own and all of replication's."""

import re
from functools import cache

from tests.cold.cold_server import ColdSession
from tests.documents.blocks import ROOT
from tests.replication.seen_pair import names_of_a_pair
from tests.session import Session
from tests.unit.engine.test_survey import metrics

SECTION = (
    (ROOT / "docs" / "operations.md")
    .read_text(encoding="utf-8")
    .split("## Metrics and health")[1]
    .split("### Metrics of the MQTT gateway")[0]
)


@cache
def exposed() -> frozenset[str]:
    """Return the names of all metrics that a server can have; a histogram has one name."""
    session = Session()
    session.do("XADD s IDMP p i * f v")
    session.do("XGROUP CREATE s g 0")
    found = [*metrics(session), *metrics(ColdSession())]
    names = {re.sub(r"(_seconds)_(?:bucket|count|sum)$", r"\1", one) for one in found}
    return frozenset(names | names_of_a_pair())


def matching(word: str) -> set[str]:
    """Return the metrics that a whole name means; it may have stars."""
    return {one for one in exposed() if re.fullmatch(word.replace("*", "[a-z_]*"), one)}


def told() -> tuple[set[str], set[str]]:
    """Return the whole names of the tables, and the metrics that they mean: `_x` begins like the whole name before."""
    whole: set[str] = set()
    meant: set[str] = set()
    for line in SECTION.splitlines():
        if not line.startswith("| `"):
            continue
        stem = ""
        for word in re.findall(r"`([a-z_*]+)(?:{[a-z_,]+})?`", line.split(" | ")[0]):
            if word.startswith("_"):
                meant |= {one for one in exposed() if one.endswith(word) and stem.startswith(one[: -len(word)])}
                continue
            stem = word
            whole.add(word)
            meant |= matching(word)
    return whole, meant


def test_every_metric_of_streamd_and_of_replication_is_in_the_tables():
    wanted = {one for one in exposed() if one.startswith("streamd_") or re.search("slave|master|repl", one)}
    assert {"redis_master_link_up", "streamd_clock_skew_seconds", "redis_connected_slave_lag_seconds"} <= wanted
    assert wanted - told()[1] == set()


def test_every_metric_of_the_tables_is_there():
    whole, _ = told()
    assert len(whole) > 20
    assert {word for word in whole if not matching(word)} == set()

"""Moves, merges, rewrites, backups, clients and crashes in every order, decided by the server's own parts."""

import pytest

from tests.cold.interleaving import explore

S = [f"XADD s {number}-1 f ${number}" for number in range(1, 8)]
T = [f"XADD t {number}-1 f ${number}" for number in range(1, 10)]
REWRITE = "BGREWRITEAOF"
# So many orders of each script are run here, with a crash in each state of each of them.
ORDERS = 40

# What comes first, the script, how often the cron runs, and after how many seconds; what is to happen in some orders.
SCRIPTS = {
    "a move, and clients": (S[:6], ["XDEL s 2-1", "XADD s 40-1 f $40", "XTRIM s MAXLEN 4"], 4, 1, {"moved"}),
    "a move, and a rewrite": (S, [REWRITE, "XDEL s 2-1", "XTRIM s MAXLEN 3"], 5, 1, {"moved", "named"}),
    "a move, and the key goes": (S, ["DEL s", "XADD s 1-1 f $50", REWRITE], 5, 1, {"moved"}),
    "two rewrites": ([*S, "-"], [REWRITE, "XDEL s 2-1", "DEL s", REWRITE], 6, 1, {"named"}),
    "a merge, and a rewrite": (
        [*S[:6], *T, "-", REWRITE, "-"], ["DEL t", "XDEL s 2-1", REWRITE], 6, 6, {"merged", "named alone"}
    ),
    "a merge, and clients": (
        [*S[:6], *T, "-", REWRITE, "-", "DEL t"],
        ["XADD s 40-1 f $40", "XTRIM s MAXLEN 4", "COPY s c", REWRITE], 6, 6, {"merged", "named alone"},
    ),
    "a backup": ([*S, "-"], ["XTRIM s MAXLEN 3"], 4, 1, {"moved", "backed up"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_nothing_is_lost_nor_left_behind_in_any_order(name):
    before, script, ticks, seconds, wanted = SCRIPTS[name]
    found = explore(before, script, ticks, ORDERS, seconds, extra="b" if name == "a backup" else "")
    assert found["runs"] == ORDERS or not found["left"]
    assert found["states"] > 100
    assert wanted <= set(found)


@pytest.mark.parametrize(
    ("fault", "name"), [("not synced", "two rewrites"), ("unlinked while a base names it", "a merge, and a rewrite")]
)
def test_a_server_that_does_it_wrong_is_found_out(fault, name):
    before, script, ticks, seconds, _ = SCRIPTS[name]
    with pytest.raises(AssertionError):
        explore(before, script, ticks, 1_000, seconds, faults=fault)

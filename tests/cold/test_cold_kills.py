"""Kill -9 while entries move to files: nothing acknowledged is lost, or there twice (python -m tests.cold.kills)."""

from tests.cold.kills import Kills


def test_a_killed_server_has_its_cold_entries_once(tmp_path):
    counts = Kills(tmp_path, seed=3).run(2)
    assert counts["acknowledged"] > 0
    assert counts["checked"] > 0

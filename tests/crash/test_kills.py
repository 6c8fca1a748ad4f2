"""Kill -9 at random points: nothing acknowledged is lost, nothing is there twice."""

import pytest

from tests.crash.kill_loop import KillLoop


@pytest.mark.parametrize(("policy", "kills"), [("always", 20), ("everysec", 5)])
def test_a_killed_server_has_all_that_it_acknowledged_once(tmp_path, policy, kills):
    result = KillLoop(tmp_path, policy, seed=kills).run(kills)
    assert result.faults == 0, result
    assert result.acknowledged > 10 * kills
    assert result.consumed > 0

"""The table of the gateway beside mosquitto, made of figures that are given."""

from bench import mqtt
from bench.mqtt_brokers import FAST, PLAIN, PURE
from bench.mqtt_rows import CLOSED, FIGURES, ROWS
from bench.table import table_row

ROW = next(row for row in ROWS if row.name == CLOSED)
QOS_2 = next(row for row in ROWS if "QoS 2" in row.name)
FAULTS = {"lost": 0, "duplicated": 1, "misordered": 0}


def turns(*cpus, per_core=40_000):
    return [{"CPU": cpu, "in + out per core": per_core, "messages/s": 5_000, **FAULTS} for cpu in cpus]


FOUND = {PLAIN: turns(10, 20, 30), PURE: turns(20, 30, 90, per_core=20_000), FAST: turns(19, 38, 57)}


def test_a_ratio_is_the_median_of_those_within_a_round():
    over_mosquitto = ROW.wanted[0]
    assert mqtt.against({ROW.name: FOUND}, ROW, over_mosquitto, PURE) == 2.0
    assert mqtt.against({ROW.name: FOUND}, ROW, over_mosquitto, FAST) == 1.9
    assert mqtt.against({ROW.name: {PURE: FOUND[PURE]}}, ROW, over_mosquitto, PURE) is None


def test_a_row_is_held_against_another_row_of_the_same_broker():
    rows = {ROW.name: FOUND, QOS_2.name: {PURE: turns(80, 90, 270)}}
    assert mqtt.against(rows, QOS_2, QOS_2.wanted[0], PURE) == 3.0


def test_missed_targets_are_marked_each_form_by_its_own():
    lines = mqtt.targets({ROW.name: FOUND}, [ROW])
    assert f"| {CLOSED} | CPU over mosquitto's | <= 2.00 x | 2.00 x | <= 1.80 x | 1.90 x **missed** |" in lines
    assert f"| {CLOSED} | in + out per core | >= 30,000 /s | 20,000 /s **missed** | >= 30,000 /s | 40,000 /s |" in lines


def test_the_brokers_stand_side_by_side_with_their_faults():
    lines = mqtt.side_by_side({ROW.name: FOUND})
    assert any(line.startswith(f"| {CLOSED} | mosquitto | 20.00 | 5,000 |") for line in lines)
    assert all(line.endswith("| 0, 3, 0 |") for line in lines[3:])


def test_targets_are_rows_of_the_long_table():
    first, second = mqtt.rows_of_table({ROW.name: FOUND}, ROW)
    assert table_row(first).startswith(f"| mqtt: {CLOSED}: CPU over mosquitto's | <= 2 | 2.00 | 1.90 |")
    assert table_row(second).startswith(f"| mqtt: {CLOSED}: in + out per core | >= 30,000 /s | 20000.00 /s |")


def test_every_target_names_a_figure_and_every_row_a_load():
    names = {row.name for row in ROWS}
    assert len(names) == len(ROWS)
    for row in ROWS:
        assert row.words[0] in ("p2p", "in", "out", "idle", "large")
        for wanted in row.wanted:
            assert wanted.figure in FIGURES
            assert wanted.over is None or wanted.over in FIGURES
            assert wanted.row in ("", *names)
            assert (wanted.most is None) != (wanted.least is None)

"""A history that moves by a frame keeps all else that it says."""

from dataclasses import fields

from streamd.replication.history import History


def test_a_history_a_frame_later_differs_in_offset_and_hash_alone():
    values = {field.name: number for number, field in enumerate(fields(History), 1)}
    before = History(**values)
    after = before.moved(70, 80)
    assert {name: getattr(after, name) for name in values} == {**values, "offset": 70, "last": 80}

"""`python -m bench.stages`: what its shapes send is what they say."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench import stages
from bench.stages import SHAPES, Host, Shape, request, turns_of


def executed(shape: Shape, turns: int = 2) -> Host:
    """Return a host on which so many turns of a shape were had, twice if it comes again."""
    host = Host()
    host.receive(host.connect(1), [[request(*words)] for words in shape.prepare])
    chunks = turns_of(shape, 0, turns)
    connections = host.connect(shape.clients)
    for _ in range(1 + shape.again):
        host.receive(connections, chunks)
    return host


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.name} {shape.clients}x{shape.depth}")
def test_every_request_of_a_shape_is_executed_and_answered_without_an_error(shape: Shape) -> None:
    host = executed(shape)
    command = host.engine.commands[shape.words(0)[0].lower().encode()]
    wanted = shape.clients * shape.depth * 2 * (1 + shape.again)
    prepared = sum(words[0] == shape.words(0)[0] for words in shape.prepare)
    assert (command.calls, command.failed, command.rejected) == (wanted + prepared, 0, 0)


def test_what_comes_again_is_a_duplicate() -> None:
    (shape,) = (shape for shape in SHAPES if shape.again)
    host = executed(shape)
    (client,) = host.connect(1)
    assert client.client is not None
    assert host.engine.call(client.client, [b"XLEN", b"s"]) == shape.clients * shape.depth * 2


def test_an_error_ends_it() -> None:
    with pytest.raises(SystemExit, match="wrong number of arguments"):
        executed(Shape("too short", 1, 1, lambda number: ("XADD", "s")))


def test_a_row_has_a_figure_for_each_stage(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(stages, "REQUESTS", 100)
    monkeypatch.setattr("sys.argv", ["bench.stages", "--row", "1"])
    assert stages.main() == 0
    form, *figures = capsys.readouterr().out.split()
    decoding, rest, _journal = map(float, figures)
    assert form == "pure"
    assert decoding > 0
    assert decoding + rest > 0


def test_a_row_of_another_form_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources may hide the compiled package: then both columns would show the pure form."""
    monkeypatch.setattr(stages, "COMPILED", Path(sys.executable))
    monkeypatch.setattr(stages.subprocess, "run", lambda *_, **__: SimpleNamespace(stdout="pure 1.0 2.0 3.0\n"))
    assert stages._figures_of("pure", 0) == [1, 2, 3]
    with pytest.raises(SystemExit, match="runs the pure form"):
        stages._figures_of("compiled", 0)

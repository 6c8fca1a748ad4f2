"""What a run of the MQTT demo should have done, beside what it did."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

Readings = dict[str, list[float]]
Commands = dict[str, list[str]]  # by device


@dataclass
class Outcome:
    """What was found, by device. commands: those in the log; None: none were sent. received: what devices got of them.

    worked: the readings that the backend has worked on, in this order. kills_missing: of the backend.
    """

    published: Readings
    qos: dict[str, int]
    stored: Readings
    worked: Readings
    commands: Commands | None = None
    received: Commands = field(default_factory=dict)
    kills_missing: int = 0


def report(console: Console, outcome: Outcome) -> int:
    """Print a row per device and the verdict; return 0 when nothing is wrong."""
    table = Table(title="each reading and each command, counted")
    for column in ("device", "QoS", "sent", "stored", "worked", "average", "commands", "got", "says"):
        table.add_column(column, justify="left" if column == "device" else "right")
    for device, published in outcome.published.items():
        numbers = [f"{len(one.get(device, [])):,}" for one in (outcome.published, outcome.stored, outcome.worked)]
        shown = ["-", "-", "-"]
        if outcome.commands is not None:
            received = outcome.received.get(device, [])
            averages = ", ".join(f"{average_of(one)[1]:.3f}" for one in received)
            shown = [str(len(outcome.commands.get(device, []))), str(len(received)), averages]
        average = f"{sum(published) / len(published):.3f}"
        table.add_row(device, str(outcome.qos[device]), *numbers, average, *shown)
    console.print(table)
    verdicts = [
        verdict("readings in the log", outcome.published, outcome.stored),
        verdict("readings that the backend worked on", outcome.published, outcome.worked),
    ]
    different = 0
    if outcome.commands is not None:
        one_each = {device: outcome.commands.get(device, ["none"])[:1] for device in outcome.published}
        verdicts.append(verdict("commands in the log", one_each, outcome.commands))
        verdicts.append(verdict("commands that devices got", one_each, outcome.received))
        different = sum(not is_right(one, outcome.published[device]) for device, (one,) in one_each.items())
    for text, is_good in verdicts:
        console.print(text, style="bold" if is_good else "red", highlight=False)
    if different:
        console.print(f"[red]the average in the command is wrong for {different} devices[/]")
    if outcome.kills_missing:
        console.print(f"[red]the backend was killed too seldom: {outcome.kills_missing} kills are missing[/]")
    return 0 if different == outcome.kills_missing == 0 and all(is_good for _, is_good in verdicts) else 1


def verdict(what: str, wanted: Mapping[str, list[Any]], found: Mapping[str, list[Any]]) -> tuple[str, bool]:
    """Return a line on how the lists of each device differ, and whether all are equal."""
    lost = duplicated = disordered = 0
    for device in wanted.keys() | found.keys():
        here, due = found.get(device, []), wanted.get(device, [])
        less, more = (Counter(due) - Counter(here)).total(), (Counter(here) - Counter(due)).total()
        lost += less
        duplicated += more
        disordered += less == more == 0 and here != due
    order = "kept" if not disordered else f"broken {disordered} times"
    return f"{what}: lost {lost}, duplicated {duplicated}, order {order}", lost == duplicated == disordered == 0


def average_of(command: str) -> tuple[int, float]:
    """Return the number of readings and the average that a command says."""
    try:
        said = json.loads(command)
        return int(said["readings"]), float(said["average"])
    except (ValueError, KeyError, TypeError):
        return 0, 0.0


def is_right(command: str, readings: list[float]) -> bool:
    """Return whether a command says the number and the average of these readings."""
    count, average = average_of(command)
    return count == len(readings) and abs(average - sum(readings) / len(readings)) < 1e-6

"""What is wrong with commands: each reading in the log has one in the log, and its device got that exactly once."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.mqtt.chaos.checker import DUPLICATED, FOREIGN, LOG, LOST, Finding
from tests.mqtt.chaos.records import Message, Received, Stored

COMMANDS = "commands/"


def check_commands(messages: dict[str, Message], log: Sequence[Stored], received: Sequence[Received]) -> list[Finding]:
    """Return the faults. messages: the readings that devices have sent; received: what each device got."""
    return [*_of_log(messages, log), *_of_devices(log, received)]


def readings_in(log: Sequence[Stored]) -> Counter[str]:
    """Return how often each reading is in the log, by its key."""
    return Counter(one.key for one in log if not one.topic.startswith(COMMANDS))


def _commands_in(log: Sequence[Stored]) -> Counter[tuple[str, str]]:
    return Counter((one.topic, one.key) for one in log if one.topic.startswith(COMMANDS))


def _of_log(messages: dict[str, Message], log: Sequence[Stored]) -> Iterator[Finding]:
    readings = readings_in(log)
    for key, message in messages.items():
        if message.is_acknowledged and not readings[key]:
            yield Finding(LOST, LOG, key, "a reading that was acknowledged is not stored")
        if message.is_once and readings[key] > 1:
            yield Finding(DUPLICATED, LOG, key, f"the reading is stored {readings[key]} times")
    for key in readings.keys() - messages.keys():
        yield Finding(FOREIGN, LOG, key, "nobody sent this reading")
    wanted = Counter({(COMMANDS + one.device, key): readings[key] for key, one in messages.items() if readings[key]})
    yield from _differences(wanted, _commands_in(log), LOG)


def _of_devices(log: Sequence[Stored], received: Sequence[Received]) -> Iterator[Finding]:
    commands: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for place, count in _commands_in(log).items():
        commands[place[0]][place] = count
    for one in received:
        deliveries = [delivery for member in one.members.values() for delivery in member]
        yield from _differences(
            commands[one.filter], Counter((delivery.topic, delivery.key) for delivery in deliveries), one.name
        )
        for delivery in deliveries:
            if delivery.qos != 2:
                yield Finding(FOREIGN, one.name, delivery.key, f"delivered with QoS {delivery.qos}")


def _differences(wanted: Counter[tuple[str, str]], found: Counter[tuple[str, str]], where: str) -> Iterator[Finding]:
    for topic, key in wanted.keys() | found.keys():
        here, due = found[topic, key], wanted[topic, key]
        if due == 0:
            yield Finding(FOREIGN, where, key, f"a command to {topic} that answers nothing")
        elif here != due:
            yield Finding(
                LOST if here < due else DUPLICATED, where, key, f"{here} commands to {topic} instead of {due}"
            )

"""What mosquitto does with an ACL file, as plainly as it can be written."""

import random
from dataclasses import dataclass

from tests.topics.mqtt_model import matches

USERS = (None, "ann", "bob", "zed", "a+b", "x/y", "$own")
CLIENT_IDS = ("c1", "c2", "c#", "p/q", "ann")
LEVELS = ("a", "b", "ann", "c1", "")
PATTERN_LEVELS = ("a", "b", "+", "%c", "%u", "x-%c", "")
FILTER_LEVELS = ("a", "b", "ann", "c1", "+", "")
FIRST_LEVELS = ("$own", "$SYS", "$SYS/broker/connection/+/state", "$share/g")


@dataclass
class Line:
    word: str  # topic or pattern
    user: str | None
    kind: str
    filter: str


def random_filter(random: random.Random, levels: tuple[str, ...], firsts: tuple[str, ...] = FIRST_LEVELS) -> str:
    chosen = [random.choice(levels) for _ in range(random.randint(1, 3))]
    if random.random() < 0.25:
        chosen.append("#")
    if random.random() < 0.1:
        chosen[0] = random.choice(firsts)
    return "/".join(chosen) or "+"


def random_lines(random: random.Random) -> list[Line]:
    """Return the rules of a file, those of clients without a name first, as the format demands."""
    lines = []
    for user in (None, *random.choices(("ann", "bob", "a+b", "x/y", "$own"), k=random.randint(0, 4))):
        for _ in range(random.randint(0, 4)):
            word = random.choice(("topic", "topic", "pattern"))
            levels = FILTER_LEVELS if word == "topic" else PATTERN_LEVELS
            kind = random.choice(("read", "write", "readwrite", "", "deny"))
            lines.append(Line(word, user, kind, random_filter(random, levels)))
    return lines


def text_of(lines: list[Line]) -> str:
    text, user = "# rules\n\n", None
    for line in lines:
        if line.user != user:
            text += f"user {line.user}\n"
            user = line.user
        text += f"{line.word} {line.kind} {line.filter}\n" if line.kind else f"{line.word} {line.filter}\n"
    return text


def allowed(lines: list[Line] | None, user: str | None, client_id: str, topic: str, *, writes: bool) -> bool:
    """Return whether a client may read or write a topic; lines: None without a file."""
    if topic.startswith("$share"):
        return False
    if writes and topic.startswith("$SYS") and not matches("$SYS/broker/connection/+/state", topic):
        return False
    if lines is None:
        return True
    good = ("", "readwrite", "write" if writes else "read")
    own = [line for line in lines if line.word == "topic" and line.user == user and matches(line.filter, topic)]
    if any(line.kind == "deny" for line in own):
        return False
    if any(line.kind in good for line in own):
        return True
    if set("+#") & set((user or "") + client_id):
        return False
    of_all = []
    for line in lines:
        if line.word == "pattern" and not (user is None and "%u" in line.filter):
            parts = [{"%c": client_id, "%u": user}.get(part, part) for part in split(line.filter)]
            if matches("".join(parts), topic):
                of_all.append(line)
    return not any(line.kind == "deny" for line in of_all) and any(line.kind in good for line in of_all)


def split(pattern: str) -> list[str]:
    """Return a pattern in parts, %c and %u by themselves."""
    parts = [""]
    for char in pattern:
        if parts[-1][-1:] == "%" and char in "cu":
            parts[-1] = parts[-1][:-1]
            parts += ["%" + char, ""]
        else:
            parts[-1] += char
    return parts


def random_topic(random: random.Random) -> str:
    levels = [random.choice((*LEVELS, "c2", "x-c1")) for _ in range(random.randint(1, 4))]
    if random.random() < 0.15:
        levels[0] = random.choice(("$own", "$SYS", "$SYS/broker/connection/x/state", "$SYSx", "$share/g"))
    return "/".join(levels) or "a"

"""Random histories on two servers, and the shortest one that still shows a difference."""

from collections.abc import Callable
from random import Random

from tests.differential.requests import Author
from tests.differential.two_servers import PROTOCOLS, Difference, Step, TwoServers, Undecided

HISTORY_STEPS = 200


def write_and_run(servers: TwoServers, seed: int, steps: int) -> tuple[list[Step], int, Difference | None]:
    """Let the author of a seed write a history while both servers run it.

    Return its steps, how many requests were sent and the difference that ended it, if one did.
    """
    choose = Random(seed)
    claims = seed % 7 == 3
    author = Author(choose, servers.session.state, deletes=seed % 3 > 0, collections=seed % 5 > 2, claims=claims)
    history: list[Step] = []
    sent = 0
    try:
        while sent < steps:
            at = choose.randrange(len(PROTOCOLS))
            client = servers.ours[at].client
            if client.waiter is not None and choose.random() < 0.9:
                continue
            if not servers.events and not claims and choose.random() < 0.1:
                step = (at, author.pipeline(client))
            else:
                step = (at, [author.request(client)])
            history.append(step)
            sent += servers.run(step)
        servers.inspect()
    except Difference as difference:
        return history, sent, difference
    except Undecided:
        pass
    return history, sent, None


def replay(servers: TwoServers, history: list[Step]) -> Difference | None:
    """Run a history that was written down; return the difference that it shows, if any."""
    try:
        for step in history:
            servers.run(step)
        servers.inspect()
    except Difference as difference:
        return difference
    except Undecided:
        pass
    return None


def shorten(history: list[Step], shows: Callable[[list[Step]], bool]) -> list[Step]:
    """Return a history that still `shows` what it should, and of which nothing can be left out.

    First whole steps go, in halves, quarters and so on; then single requests, then the words behind the key.
    """
    size = len(history) // 2
    while size:
        history = _without_parts(history, size, shows)
        size //= 2
    while True:
        shorter = _without_parts(history, 1, shows)
        for at, (_, requests) in enumerate(shorter):
            for number in range(len(requests) - 1, -1, -1):
                for word in range(len(requests[number]) - 1, -1, -1):
                    tried = _with_request(shorter, at, number, requests[number][:word] + requests[number][word + 1 :])
                    if requests[number][1:] and shows(tried):
                        shorter = tried
                        requests = tried[at][1]
        if shorter == history:
            return history
        history = shorter


def _without_parts(history: list[Step], size: int, shows: Callable[[list[Step]], bool]) -> list[Step]:
    end = len(history)
    while end > 0:
        start = max(0, end - size)
        tried = history[:start] + history[end:]
        if shows(tried):
            history = tried
        end = start
    return history


def _with_request(history: list[Step], at: int, number: int, words: list[bytes]) -> list[Step]:
    client, requests = history[at]
    return [*history[:at], (client, [*requests[:number], words, *requests[number + 1 :]]), *history[at + 1 :]]


def as_text(history: list[Step]) -> str:
    """Return a history as the tables in tests/differential/scenarios/ have it."""
    lines = []
    for client, requests in history:
        said = " ; ".join(" ".join(map(_quoted, words)) for words in requests)
        lines.append(f"{'abc'[client]}: {said}")
    return "\n".join(lines)


def _quoted(word: bytes) -> str:
    text = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word)
    return text if text and not set(text) & set(" ;'\\$*>") else f'"{text}"'

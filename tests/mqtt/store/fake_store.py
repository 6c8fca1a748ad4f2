"""A store that answers the reads of tails and replays, and counts them."""

import asyncio
from bisect import bisect_right
from types import SimpleNamespace

from streamd.clients.topics.entry_ids import format_id, parse_id


class Store:
    """Answers XREAD and XRANGE of streams of many entries; asked, sizes: of its replies, the newest last."""

    def __init__(self, streams):
        self.streams, self.asked, self.sizes = streams, [], []
        self._ids = {key: [parse_id(one[0]) for one in entries] for key, entries in streams.items()}
        self.client_id = 0

    def send(self, packed, count, done):
        words = packed.split(b"\r\n")[2::2]
        keys_and_ids = words[words.index(b"STREAMS") + 1 :]
        half = len(keys_and_ids) // 2
        asked = int(words[words.index(b"COUNT") + 1])
        found = [
            [key, taken]
            for key, start in zip(keys_and_ids[:half], keys_and_ids[half:], strict=True)
            if (taken := self._after(key, start, asked))
        ]
        self._note(asked, [one for _, taken in found for one in taken])
        if found or b"BLOCK" not in words:
            asyncio.get_running_loop().call_soon(done, [found])

    async def demand(self, *commands):
        (_, key, start, _, _, asked), *_ = commands
        found = self._after(key, start.lstrip("(").encode(), asked)
        self._note(asked, found)
        return found, None

    def _after(self, key, start, count):
        first = bisect_right(self._ids[key], parse_id(start))
        return self.streams[key][first : first + count]

    def _note(self, asked, entries):
        self.asked.append(asked)
        self.sizes.append(sum(len(word) for _, fields in entries for word in fields))


def log_of(keys):
    generation = SimpleNamespace(number=1, shards=len(keys))
    meta = SimpleNamespace(generation=lambda number: generation)
    return SimpleNamespace(
        name="log",
        generation=generation,
        handle=SimpleNamespace(meta=meta),
        keys_of=lambda generation: keys,
        trimmed_command=lambda generation, shard: ("HGET",),
    )


def entries_of(fields, first=1):
    return [(format_id((first + number, 0)).encode(), one) for number, one in enumerate(fields)]

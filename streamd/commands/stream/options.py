"""Common parts of the stream commands: their options, trimming, and lists of IDs."""

from itertools import islice
from typing import Final

from streamd.base.errors import CommandError, InvalidStreamId, NotAnInteger, SyntaxError_, WrongArity
from streamd.catalog.arguments import Arguments, parse_integer, parse_timeout_ms
from streamd.commands.stream.id_lists import parse_columns
from streamd.configuration.server_options import Config
from streamd.idmp.settings import DURATION_S_MAX, DURATION_S_MIN, MAXSIZE_MAX, MAXSIZE_MIN
from streamd.stream.entry_id import parse_id, parse_new_id
from streamd.stream.id_parts import ids_of_columns
from streamd.stream.trimming import Trim

# What may happen to the references that consumer groups hold to an entry that goes.
REFERENCES: Final = {b"KEEPREF": "keep", b"DELREF": "delete", b"ACKED": "acked"}

# How much an approximate trim may remove when the request does not say: segments, and entries.
LIMIT_SEGMENTS: Final = 100
LIMIT_ENTRIES_DEFAULT: Final = 10_000
LIMIT_ENTRIES_MAX: Final = 1_000_000


class AppendOptions:
    """The options between the key and the fields of an XADD, or behind the key of an XTRIM.

    at, fields_at: the positions of the ID and of what is behind it. entry_id: None for `*`; with `seq_given` false only
    its milliseconds are given. pid_at, iid_at: where producer ID and idempotent ID stand, 0 for nowhere; behind
    IDMPAUTO the second follows from the fields.
    """

    __slots__ = (
        "at",
        "entry_id",
        "fields_at",
        "iid_at",
        "make_stream",
        "pid_at",
        "places",
        "references",
        "seq_given",
        "trim",
    )

    def __init__(self, at: int = 2, pid_at: int = 0, iid_at: int = 0) -> None:
        self.make_stream = True
        self.references: str | None = None
        self.pid_at = pid_at
        self.iid_at = iid_at
        self.trim: Trim | None = None
        self.entry_id: int | None = None
        self.seq_given = True
        self.at = at
        self.fields_at = at + 1
        self.places: tuple[int, ...] = ()

    def own_words(self) -> tuple[int, int]:
        """Return where the words begin, and end, that are a request's own in a run: pid and iid, or none."""
        return (self.pid_at, (self.iid_at or self.pid_at) + 1) if self.pid_at else (self.fields_at, self.fields_at)

    def places_shared(self) -> tuple[int, ...]:
        """Return where the words stand that requests of one run have in common: up to the ID, all but pid and iid."""
        if not self.places:
            begin, end = self.own_words()
            self.places = (*range(begin), *range(end, self.fields_at))
        return self.places


# The commonest heads, by the word behind the key: `key * ...`, `key IDMP pid iid * ...`, `key IDMPAUTO pid * ...`.
# They do not pass the loop over the options, which costs more than all the rest of an XADD.
PLAIN_HEAD: Final = AppendOptions()
_IDMP: Final = AppendOptions(at=5, pid_at=3, iid_at=4)
_IDMPAUTO: Final = AppendOptions(at=4, pid_at=3)
_COMMON: Final = {b"*": PLAIN_HEAD, b"IDMP": _IDMP, b"idmp": _IDMP, b"IDMPAUTO": _IDMPAUTO, b"idmpauto": _IDMPAUTO}

# What was parsed, by the words from behind the key to a `*`, and the size of a node, which says how much `~` may trim:
# who trims says the same every time. Heads with an iid are not kept, since no two are the same.
_KEPT_HEADS: Final[dict[tuple[object, ...], AppendOptions]] = {}
_KEPT_HEADS_MAX: Final = 256
_KEPT_HEAD_WORDS_MAX: Final = 8
_KEPT_WORD_BYTES_MAX: Final = 64


def parse_append(words: list[bytes], config: Config) -> AppendOptions:
    """Return the options of an XADD, which has five words at least; all is checked that can be without looking at the
    key, in Redis's order.

    Raises: CommandError.
    """
    options = _COMMON.get(words[2])
    if options is PLAIN_HEAD:
        if len(words) & 1:
            return options
    elif options is not None:
        at, length = options.at, len(words)
        # An iid that is not empty stands, like the `*` behind IDMPAUTO's pid, at 4.
        if length > at + 2 and length - at & 1 and words[at] == b"*" and words[3] and words[4]:
            return options
    return _parse_rarer(words, config)


def _parse_rarer(words: list[bytes], config: Config) -> AppendOptions:
    """Return the options of an XADD whose head is not one of the commonest. Raises: CommandError."""
    node_max_entries = config.values["stream-node-max-entries"]
    assert isinstance(node_max_entries, int)
    head: tuple[object, ...] = ()
    try:
        at = words.index(b"*", 2, 3 + _KEPT_HEAD_WORDS_MAX)
    except ValueError:
        at = 0
    else:
        head = (node_max_entries, *words[2:at])
        kept = _KEPT_HEADS.get(head)
        if kept is not None and len(words) > at + 2 and len(words) - at & 1:
            return kept
    options = parse_append_options(words, node_max_entries, adding=True)
    _check_fields(words, options)
    if options.entry_id == 0 and options.seq_given:
        raise CommandError("ERR The ID specified in XADD must be greater than 0-0")
    if head and options.at == at and not options.pid_at and max(map(len, words[2:at])) <= _KEPT_WORD_BYTES_MAX:
        if len(_KEPT_HEADS) >= _KEPT_HEADS_MAX:
            _KEPT_HEADS.clear()
        _KEPT_HEADS[head] = options
    return options


def parse_recorded_append(words: list[bytes]) -> AppendOptions:
    """Return the options of an XADD in a journal; the word at the ID's place is not read.

    There an ID stands behind IDMP, too, and `*` alone says that a duplicate was answered. Raises: CommandError.
    """
    if words[2][:1].isdigit() and len(words) & 1 and len(words) > 3:
        return PLAIN_HEAD
    options = _COMMON.get(words[2])
    if options is None or not words[options.at][:1].isdigit() or not words[3] or not words[4]:
        options = parse_append_options(words, 0, adding=True, recorded=True)
    _check_fields(words, options)
    return options


def _check_fields(words: list[bytes], options: AppendOptions) -> None:
    count = len(words) - options.fields_at
    if count < 2 or count % 2:
        raise WrongArity("xadd")


def parse_append_options(
    words: list[bytes], node_max_entries: int, adding: bool, recorded: bool = False
) -> AppendOptions:
    """Return the options of XADD (`adding`) or XTRIM, which come in any order.

    Words are taken from left to right and the first wrong one decides the error, as in Redis. An option without all
    of its words is none, and is then read as the ID. recorded: they stand in a journal, where trims are exact and a
    LIMIT says nothing any more; the ID is left to the caller.

    Raises: CommandError.
    """
    options = AppendOptions()
    by: str | None = None
    threshold = limit = 0
    approximate = limit_given = False
    at, last = 2, len(words) - 1
    while at <= last:
        word = words[at]
        if adding and word == b"*":
            break
        more = last - at
        option = word.upper()
        if option in (b"MAXLEN", b"MINID") and more:
            if by is not None:
                raise CommandError("ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
            at += 1
            approximate = words[at] == b"~" and more >= 2
            if approximate or (words[at] == b"=" and more >= 2):
                at += 1
            if option == b"MAXLEN":
                threshold = parse_integer(words[at])
                if threshold < 0:
                    raise CommandError("ERR The MAXLEN argument must be >= 0.")
            else:
                threshold = parse_id(words[at])
            by = option.decode().lower()
        elif option == b"LIMIT" and more:
            at += 1
            limit = parse_integer(words[at])
            if limit < 0:
                raise CommandError("ERR The LIMIT argument must be >= 0.")
            limit_given = True
        elif option in REFERENCES and options.references is None:
            options.references = REFERENCES[option]
        elif adding and option == b"NOMKSTREAM":
            options.make_stream = False
        elif adding and ((option == b"IDMP" and more >= 2) or (option == b"IDMPAUTO" and more)):
            at += _take_iid(options, words, at, option)
        elif recorded and adding:
            break
        elif adding:
            options.entry_id, chooses_seq = parse_new_id(word)
            options.seq_given = not chooses_seq
            if options.pid_at:
                raise CommandError("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs")
            break
        else:
            raise SyntaxError_()
        at += 1
    options.at = at
    options.fields_at = at + 1
    if recorded:
        limit, limit_given = 0, False
    if by is None:
        if limit:
            raise CommandError("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
        if not adding:
            raise CommandError("ERR syntax error, XTRIM must be called with a trimming strategy")
    if limit_given and not approximate:
        raise CommandError("ERR syntax error, LIMIT cannot be used without the special ~ option")
    if by is not None:
        if approximate and not limit_given and not recorded:
            limit = min(LIMIT_SEGMENTS * node_max_entries or LIMIT_ENTRIES_DEFAULT, LIMIT_ENTRIES_MAX)
        options.trim = Trim(by, threshold, approximate, limit, options.references or "keep", recorded)
    return options


def _take_iid(options: AppendOptions, words: list[bytes], at: int, option: bytes) -> int:
    """Take the words of IDMP or IDMPAUTO at `at`; return how many they are."""
    if options.pid_at:
        raise CommandError("ERR syntax error, IDMP/IDMPAUTO specified multiple times")
    name = option.decode()
    options.pid_at = at + 1
    if not words[at + 1]:
        raise CommandError(f"ERR syntax error, {name} requires a non-empty producer ID")
    if option == b"IDMPAUTO":
        return 1
    options.iid_at = at + 2
    if not words[at + 2]:
        raise CommandError(f"ERR syntax error, {name} requires a non-empty idempotent ID")
    return 2


class ReadOptions:
    """The request of an XREAD or XREADGROUP.

    count, count_max, bytes_max: 0 for no limit; the last two hold for all streams together.
    block_ms: None when the client does not want to wait, 0 for ever.
    claim_idle_ms: None without CLAIM.
    ids: as sent, one for each key.
    """

    __slots__ = (
        "block_ms",
        "bytes_max",
        "claim_idle_ms",
        "consumer",
        "count",
        "count_max",
        "group",
        "ids",
        "keys",
        "no_ack",
    )

    def __init__(self) -> None:
        self.count = 0
        self.count_max = 0
        self.bytes_max = 0
        self.block_ms: int | None = None
        self.claim_idle_ms: int | None = None
        self.no_ack = False
        self.group: bytes | None = None
        self.consumer = b""
        self.keys: list[bytes] = []
        self.ids: list[bytes] = []


def parse_read_options(words: list[bytes], grouped: bool, now_ms: int) -> ReadOptions:
    """Return the options, keys and IDs of XREAD, or of XREADGROUP (`grouped`), at a present time.

    Raises: CommandError.
    """
    options = ReadOptions()
    at, last = 1, len(words) - 1
    while at <= last:
        option = words[at].upper()
        more = last - at
        if option == b"BLOCK" and more:
            at += 1
            options.block_ms = parse_timeout_ms(words[at], now_ms)
        elif option == b"COUNT" and more:
            at += 1
            options.count = max(0, parse_integer(words[at]))
        elif option == b"STREAMS" and more:
            at += 1
            if more % 2:
                name, ids = ("xreadgroup", "an ID or '>'") if grouped else ("xread", "an ID, '+', or '$'")
                raise CommandError(
                    f"ERR Unbalanced '{name}' list of streams: for each stream key {ids} must be specified."
                )
            options.keys = words[at : at + more // 2]
            options.ids = words[at + more // 2 :]
            break
        elif option == b"GROUP" and more >= 2:
            _only_grouped(grouped, option)
            options.group, options.consumer = words[at + 1], words[at + 2]
            at += 2
        elif option == b"NOACK":
            _only_grouped(grouped, option)
            options.no_ack = True
        elif option == b"CLAIM" and more:
            _only_grouped(grouped, option)
            at += 1
            options.claim_idle_ms = _parse_min_idle(words[at])
        elif option == b"MAXCOUNT" and more:
            at += 1
            options.count_max = _parse_positive(words[at], "MAXCOUNT")
        elif option == b"MAXSIZE" and more:
            at += 1
            options.bytes_max = _parse_positive(words[at], "MAXSIZE")
        else:
            raise SyntaxError_()
        at += 1
    if not options.keys:
        raise SyntaxError_()
    if grouped and options.group is None:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    if options.count_max and options.count_max < options.count:
        raise CommandError("ERR MAXCOUNT must be greater than or equal to COUNT")
    return options


def _only_grouped(grouped: bool, option: bytes) -> None:
    if not grouped:
        name = option.decode()
        raise CommandError(f"ERR The {name} option is only supported by XREADGROUP. You called XREAD instead.")


def _parse_min_idle(word: bytes) -> int:
    try:
        idle_ms = parse_integer(word)
    except NotAnInteger:
        raise CommandError("ERR min-idle-time is not an integer or out of range")
    if idle_ms < 0:
        raise CommandError("ERR min-idle-time must be a positive integer")
    return idle_ms


def _parse_positive(word: bytes, name: str) -> int:
    number = parse_integer(word)
    if number < 1:
        raise CommandError(f"ERR {name} must be a positive integer")
    return number


def parse_run(requests: list[list[bytes]]) -> list[int]:
    """Return the entry IDs that a run of requests ends with: the first one and those behind it that are like it but for
    their last word; empty if one of these is no ID.
    """
    first = requests[0]
    length, like = len(first), first[:-1]
    words = [first[-1]]
    for request in islice(requests, 1, None):
        if len(request) != length or request[:-1] != like:
            break
        words.append(request[-1])
    try:
        return parse_ids(words)
    except InvalidStreamId:
        return []


def parse_ids(words: list[bytes]) -> list[int]:
    """Return the entry IDs that a request lists. Raises: InvalidStreamId."""
    columns = parse_columns(words)
    return [parse_id(word) for word in words] if columns is None else ids_of_columns(*columns)


def stream_keys(words: list[bytes]) -> list[bytes]:
    """Return the keys of an XREAD or XREADGROUP: the first half of the words behind STREAMS.

    These are the keys that the command would read, whatever the names of its groups and consumers: a user's rules are
    checked for them.
    """
    try:
        return parse_read_options(words, words[0].upper() == b"XREADGROUP", now_ms=0).keys
    except CommandError:
        pass  # it reads none; COMMAND GETKEYS shows what it can
    for at, word in enumerate(words):
        if word.upper() == b"STREAMS":
            behind = words[at + 1 :]
            return behind[: len(behind) // 2]
    return []


def parse_count_option(words: list[bytes], at: int) -> int | None:
    """Return the `COUNT n` that may stand at `at` as the last thing; a negative number is 0; None without it.

    Raises: SyntaxError_, NotAnInteger.
    """
    count = None
    while at < len(words):
        if (words[at] != b"COUNT" and words[at].upper() != b"COUNT") or at + 1 >= len(words):
            raise SyntaxError_()
        count = max(0, parse_integer(words[at + 1]))
        at += 2
    return count


def parse_settings(words: Arguments, duration: str, maxsize: str) -> tuple[int | None, int | None]:
    """Return (seconds, entries) of an idempotence window that the rest of a request sets; None for an option not given.

    duration, maxsize: the options' names. All words are checked before anything is set.
    Raises: CommandError.
    """
    ranges = {
        duration.encode(): (duration, DURATION_S_MIN, DURATION_S_MAX, "seconds"),
        maxsize.encode(): (maxsize, MAXSIZE_MIN, MAXSIZE_MAX, "entries"),
    }
    values: dict[str, int] = {}
    while words.left():
        option = words.word().upper()
        if option not in ranges or not words.left():
            raise SyntaxError_()
        name, minimum, maximum, unit = ranges[option]
        if name in values:
            raise CommandError(f"ERR {name} specified multiple times")
        number = words.integer()
        if not minimum <= number <= maximum:
            raise CommandError(f"ERR {name} must be between {minimum} and {maximum} {unit}")
        values[name] = number
    if not values:
        raise CommandError("ERR At least one parameter must be specified")
    return values.get(duration), values.get(maxsize)


def parse_deletion(words: list[bytes], at: int) -> tuple[str, list[bytes]]:
    """Return (references, IDs as sent) of `[KEEPREF | DELREF | ACKED] IDS numids id [id ...]`; IDS may come first.

    Raises: CommandError.
    """
    references: str | None = None
    ids: list[bytes] | None = None
    options = Arguments(words, at)
    while options.left():
        option = options.word().upper()
        if option in REFERENCES and references is None:
            references = REFERENCES[option]
        elif option == b"IDS" and ids is None and options.left():
            number = options.integer(CommandError("ERR Number of IDs must be a positive integer"))
            if number < 1:
                raise CommandError("ERR Number of IDs must be a positive integer")
            if number > options.left():
                raise CommandError("ERR The `numids` parameter must match the number of arguments")
            ids = [options.word() for _ in range(number)]
        else:
            raise SyntaxError_()
    if ids is None:
        raise CommandError("ERR IDS option is required")
    return references or "keep", ids

"""The replica's side of a link to its primary, without I/O: bytes in, bytes out, and the time.

connect -> connecting -> handshake -> (waiting ->) connected, or sync -> load -> connected. Whatever goes wrong ends the
connection, and the link begins again after a pause.
"""

import re
from collections.abc import Callable
from typing import Final, Protocol

from streamd.base.log import log
from streamd.base.version import VERSION, version_number
from streamd.connected.replication_ports import NO_ID
from streamd.durability.incoming import Incoming
from streamd.replication.copy_lines import TAKES_SEGMENTS, words_of
from streamd.replication.frame import TAKES_TIME, Ask, ForeignFrame, Frame, FrameError, FrameReader, Time
from streamd.replication.history import History
from streamd.replication.link_faults import IS_PRIMARY, LinkFault, advised
from streamd.replication.standing import Standing

LINE_BYTES_MAX: Final = 1_024
# How a primary answers `REPLCONF streamd-version`: with its own one.
VERSION_WORD: Final = "streamd"
FILES_MAX: Final = 64
_PAUSES_S: Final = (1, 2, 4, 8, 16, 30)
_SAID_EVERY_MS: Final = 60_000
# A replica that needs the whole state again before that is too slow for its primary: it comes ever later.
_COPY_HOLDS_MS: Final = 60_000
_REPLID: Final = re.compile("[0-9a-f]{40}")
_OFFSET: Final = re.compile("[0-9]{1,18}")


class Host(Protocol):
    """What the link needs of the server around it."""

    def connect(self, host: str, port: int) -> None:
        """Begin to connect; `connected` or `lost` of the link follows."""

    def send(self, data: bytes) -> None:
        """Send bytes of the handshake at once."""

    def close(self) -> None:
        """Close the connection; nothing of it comes any more."""

    def credentials(self) -> tuple[str, str]:
        """Return the user, which may be empty, and the password for the primary, both empty for none."""

    def announced(self) -> tuple[str, int]:
        """Return the address that the primary is to show, which may be empty, and the port."""

    def apply(self, frame: Frame) -> None:
        """Apply a frame, and write it to the journal. Raises: LinkFault."""

    def acknowledge(self) -> None:
        """Acknowledge what was applied, as soon as it is in the journal."""

    def asked(self) -> None:
        """Acknowledge, and again when the journal is on the disk."""

    def told_time(self, unix_ms: int) -> None:
        """Compare the clock here with a time of the primary's."""

    def renamed(self) -> None:
        """The history has another ID from here on."""

    def promoted(self) -> None:
        """The server that was to become the primary is it."""

    def not_promoted(self, why: str) -> None:
        """It is not; this link follows nobody."""

    def is_busy(self) -> bool:
        """Return whether a script was interrupted: nothing changes before its end."""

    def keys(self) -> int:
        """Return how many keys there are here."""

    def receive(self, count: int, segments: int) -> Incoming:
        """Prepare to receive so many files, behind so many segment files. Raises: OSError."""

    def load(self, incoming: Incoming, history: History) -> None:
        """Load what was received beside the present state, and put it in its place; `loaded` or `fail` follows.

        history: where the received state stands.
        """

    def pause_reading(self, is_paused: bool) -> None:
        """Take no bytes from the connection, or take them again."""


class Link:
    """The link of a replica.

    state: as ROLE shows it, or `handshake`, or `load`. up_ms, down_ms: since when the link is up, or down, on the
    monotonic clock. last_ms: when bytes came last. attempts: connections; copies: of these, such that take the whole
    state. copied: its bytes so far. was_down_ms: how long the link was down before it came up.
    """

    def __init__(
        self, standing: Standing, host: Host, now_ms: Callable[[], int], timeout_ms: Callable[[], int]
    ) -> None:
        self._standing, self._host = standing, host
        self._now_ms, self._timeout_ms = now_ms, timeout_ms
        self.state = "connect"
        self.is_active = False
        self.last_ms = self.up_ms = self._acked_ms = 0
        self.down_ms = now_ms()
        self.attempts = self.copies = 0
        self.was_down_ms = 0
        self.copied = 0
        self._failures = 0
        self._next_ms = 0
        self._lines = b""
        self._kept = b""  # what has come while a script was interrupted
        self._step = ""
        self._replid = self._origin = ""
        self._earlier: tuple[str, ...] = ()
        self._offset = self._last = 0
        self._frames: FrameReader | None = None
        self._incoming: Incoming | None = None
        self._said: dict[tuple[str, int, str], int] = {}
        self._must_copy = self._may_replace = self._promotes = self._is_copied = False
        self._is_promoted: bool | None = False  # the server that is to become the primary: None while that is unknown
        self._too_old: LinkFault | None = None

    @property
    def may_replace(self) -> bool:
        """Whether a REPLICAOF allows another data set, because the link was not up since."""
        return self._may_replace

    # -- from outside ---------------------------------------------------------------------------------------------

    def start(self, may_replace: bool = False, promotes: bool = False) -> None:
        """Follow the primary of the standing from now on.

        may_replace: take another data set, too, even an empty one. promotes: it is a replica of this server, and is to
        become the primary first. When the link is lost behind that request, it is asked until it answers: if this
        server went on as the primary, there might be two.
        """
        self.stop()
        self._may_replace, self._promotes = may_replace, promotes
        self._is_promoted = False
        if promotes:
            self._must_copy = False  # this state is the true one
        self.is_active = True
        self._failures = self._next_ms = 0
        self.down_ms = self._now_ms()

    def stop(self) -> None:
        """Follow nobody."""
        self.is_active = False
        self._end()

    def copy_anew(self) -> None:
        """Take the whole state of the primary when the link begins again."""
        self._must_copy = True

    def tick(self) -> None:
        """Do what is due."""
        if not self.is_active:
            return
        if self._kept and not self._host.is_busy():
            kept, self._kept = self._kept, b""
            self._host.pause_reading(False)
            self.received(kept)
        now_ms = self._now_ms()
        if self.state == "connect":
            primary = self._standing.primary
            if now_ms >= self._next_ms and primary is not None:
                self.state = "connecting"
                self.last_ms = now_ms
                self.attempts += 1
                self._host.connect(*primary)
            return
        if self.state in ("sync", "load") and now_ms - self._acked_ms >= 1_000:
            self._acked_ms = now_ms
            self._host.send(_request(b"REPLCONF", b"ACK", b"-1"))  # has nothing yet, but is there
        if self.state == "load":
            return
        if now_ms - self.last_ms > self._timeout_ms():
            self.fail(LinkFault(f"nothing has come for {(now_ms - self.last_ms) // 1000} seconds"))
        elif self.state == "connected" and now_ms - self._acked_ms >= 1_000:
            self._acked_ms = now_ms
            if not self._is_copied or now_ms - self.up_ms >= _COPY_HOLDS_MS:
                self._failures = 0  # it holds
            self._host.acknowledge()

    def connected(self) -> None:
        """The connection is there."""
        self.last_ms = self._now_ms()
        self.state = "handshake"
        self._lines = b""
        self._step = "ping"
        self._too_old = None
        self._host.send(_request(b"PING"))

    def lost(self, reason: str) -> None:
        """The connection is gone, or was not made."""
        if self.state != "connect" and self.is_active:
            self.fail(LinkFault(reason))

    def received(self, data: bytes) -> None:
        """Take bytes of the primary."""
        self.last_ms = self._now_ms()
        if self.state != "load" and (self._kept or self._host.is_busy()):
            self._kept += data
            self._host.pause_reading(True)
            return
        try:
            if self._frames is not None:
                self._take_frames(data)
            else:
                self._take_lines(data)
        except ForeignFrame as error:
            if self._frames is not None and self._frames.offset == self._offset:
                self._must_copy = True  # it would come again
            self.fail(error)
        except (LinkFault, FrameError, ValueError, OSError) as error:
            self.fail(error)

    def loaded(self) -> None:
        """The received state has taken the place of the one before."""
        self._is_copied = True
        self._incoming = None
        self._go_on()
        self._host.pause_reading(False)
        rest, self._lines = self._lines, b""
        if rest:
            self.received(rest)

    def fail(self, error: Exception) -> None:
        """End the connection, and begin again after a pause."""
        is_soon = isinstance(error, LinkFault) and error.is_soon
        pause_s = 1 if is_soon else _PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)]
        self._failures += not is_soon
        if self._promotes and self._is_promoted is False:
            self._promotes = False
            self._end()
            self._host.not_promoted(str(error))
            return
        if self._promotes:
            pause_s = 1
        self._say(str(error), pause_s)
        self._end()
        self._next_ms = self._now_ms() + pause_s * 1_000

    # -- lines ----------------------------------------------------------------------------------------------------

    def _take_lines(self, data: bytes) -> None:
        self._lines += data
        while self._frames is None and self.state != "load":
            incoming = self._incoming
            if incoming is not None and incoming.expected:
                piece, self._lines = self._lines[: incoming.expected], self._lines[incoming.expected :]
                if not piece:
                    return
                incoming.write(piece)
                self.copied = incoming.received
                continue
            line, newline, rest = self._lines.partition(b"\n")
            if not newline:
                if len(line) > LINE_BYTES_MAX:
                    raise LinkFault("what answers speaks another protocol")
                return
            self._lines = rest
            line = line.removesuffix(b"\r")
            if line:
                self._take_line(line)
        if self._frames is not None and self._lines:
            rest, self._lines = self._lines, b""
            self._take_frames(rest)

    def _take_line(self, line: bytes) -> None:
        if self._incoming is not None:
            self._take_file_line(line)
        elif self._step == "files":
            words = words_of(line, self._replid, self._offset)
            is_known = words[:1] == [b"files"] and [len(word) for word in words[3:5]] == [16, 40]
            if not is_known or not 1 <= int(words[1]) <= FILES_MAX or not 5 <= len(words) <= 6:
                raise LinkFault("what answers speaks another protocol")
            self._last, self._origin = int(words[3], 16), words[4].decode()
            if self._host.keys():
                self._look_at_what_is_here(is_empty=not int(words[2]))
            self._incoming = self._host.receive(int(words[1]), int(words[5]) if len(words) > 5 else 0)
            self.state = "sync"
        else:
            self._take_reply(line)

    def _look_at_what_is_here(self, *, is_empty: bool) -> None:
        """Keep the state here if that of the primary has nothing to do with it; else say which state is replaced."""
        count, history = self._host.keys(), self._standing.history
        keys = "1 key" if count == 1 else f"{count} keys"
        if not self._may_replace and self._is_foreign(is_empty=is_empty):
            host, port = self._standing.primary or ("", 0)
            raise LinkFault(
                f"it has another data set, so {keys} here {'is' if count == 1 else 'are'} kept: REPLICAOF NO ONE makes "
                f"this server a primary, REPLICAOF {host} {port} replaces them"
            )
        if self._replid != history.replid:
            text = "the state of the primary replaces the %s here, those of the history %s at offset %d"
            log.warning("replica-replaces", text, keys, history.replid, history.offset)

    def _is_foreign(self, *, is_empty: bool) -> bool:
        """Return whether the state here may not make room for that of the primary.

        A primary that has lost its data begins another data set. It does not have to be empty still: clients that write
        again and again may be faster than its replicas. A state without an origin may be replaced, but not by nothing.
        The same holds where a REPLICAOF has allowed another data set before this process began.
        """
        origin = self._standing.history.origin
        may_go = origin == NO_ID or self._standing.was_told
        return self._origin != origin and (is_empty or not may_go)

    def _take_file_line(self, line: bytes) -> None:
        incoming, words = self._incoming, words_of(line, self._replid, self._offset)
        assert incoming is not None
        if words[:1] in ([b"file"], [b"segment"]) and len(words) == 2:
            incoming.begin_file(int(words[1]), is_segment=words[0] == b"segment")
        elif words[:1] == [b"whole"] and len(words) == 2 and incoming.is_whole:
            if words[1] != b"%016x" % incoming.digest():
                raise LinkFault("the state that was sent does not match its checksum")
            self.state = "load"
            self._host.pause_reading(True)
            here = History(self._replid, self._offset, self._last, origin=self._origin, is_shared=True)
            self._host.load(incoming, here)
        else:
            raise LinkFault(f"{line[:40]!r} stands between the files of a state")

    def _take_reply(self, line: bytes) -> None:
        step = self._step
        if line[:1] not in b"+-":
            raise LinkFault("what answers speaks another protocol")
        text = line[1:].decode("utf-8", "replace")
        refused = line[:1] == b"-"
        if step == "ping":
            if refused and not text.startswith(("NOAUTH", "NOPERM")):
                raise LinkFault(f"the primary says: {text}", text.startswith(("LOADING", "MASTERDOWN")))
            user, password = self._host.credentials()
            if password:
                self._ask("auth", b"AUTH", *([_bytes(user)] if user else []), _bytes(password))
            else:
                self._introduce()
        elif step == "auth":
            if refused:
                raise LinkFault(f"the primary refuses masteruser and masterauth: {text}")
            self._introduce()
        elif step.isdigit():  # whether it knows a REPLCONF does not matter
            if text.startswith(("NOAUTH", "NOPERM")):
                raise LinkFault(f"the primary says: {advised(text)}")
            if text.startswith(VERSION_WORD):
                self._look_at_version(text.removeprefix(VERSION_WORD).strip())
            self._step = str(int(step) - 1)
            if self._step == "0":
                self._ask_for_stream()
        else:
            self._take_verdict(refused, text)

    def _ask(self, step: str, *words: bytes) -> None:
        self._step = step
        self._host.send(_request(*words))

    def _introduce(self) -> None:
        address, port = self._host.announced()
        said = [(b"listening-port", b"%d" % port)]
        if address:
            said.append((b"ip-address", _bytes(address)))
        said.append((b"streamd-version", VERSION.encode()))
        said += [(b"capa", b"streamd"), (b"capa", TAKES_TIME), (b"capa", TAKES_SEGMENTS)]
        said.append((b"streamd-last", b"%016x" % self._standing.history.last))
        self._step = str(len(said))
        for name, value in said:
            self._host.send(_request(b"REPLCONF", name, value))

    def _look_at_version(self, primary: str) -> None:
        """Look whether this version knows all that the primary's may send. (Versions that differ in the last number
        alone write the same.)
        """
        try:
            is_newer = version_number(primary) >> 8 > version_number(VERSION) >> 8
        except ValueError:
            is_newer = True
        if is_newer:
            fault = f"the primary is streamd {primary}, newer than the {VERSION} here: install that version here, too"
            if not self._promotes:
                raise LinkFault(fault)
            self._too_old = LinkFault(fault)  # it is to become the primary first

    def _ask_for_stream(self) -> None:
        history = self._standing.history
        if self._must_copy or history.offset < 0:
            self._ask("psync", b"PSYNC", b"?", b"-1")
        else:
            promotes = [b"FAILOVER"] if self._promotes and not self._is_promoted else []
            if promotes:
                self._is_promoted = None
            self._ask("psync", b"PSYNC", history.replid.encode(), b"%d" % (history.offset + 1), *promotes)

    def _take_verdict(self, refused: bool, text: str) -> None:
        words = text.split()
        if refused:
            is_soon = text.startswith(("NOMASTERLINK", "LOADING"))
            if self._is_promoted is None and not is_soon:
                self._is_promoted = text == IS_PRIMARY
                if self._is_promoted:
                    self._ask_for_stream()
                    return
            raise LinkFault(f"the primary says: {advised(text)}", is_soon)
        if words[-1:] != ["streamd"]:
            raise LinkFault("the primary is no streamd, and streamd cannot follow it yet")
        if len(words) < 3 or not _REPLID.fullmatch(words[1]):
            raise LinkFault(f"the primary says: {text}")
        if self._promotes:
            self._promotes = False
            self._host.promoted()
        if self._too_old is not None:
            raise self._too_old
        if words[0] == "CONTINUE" and len(words) == 3:
            self._standing.share()  # the primary has it, too
            history = self._standing.history
            self._replid, self._offset = words[1], history.offset
            self._earlier = (history.replid, history.replid2)
            self._is_copied = False
            if words[1] != history.replid:
                self._standing.history = history.branched(words[1])
                self._host.renamed()
            self._go_on()
        elif words[0] == "FULLRESYNC" and len(words) == 4 and _OFFSET.fullmatch(words[2]):
            self._replid, self._offset = words[1], int(words[2])
            self._earlier = ()
            self._step = "files"
            self.copies += 1
        else:
            raise LinkFault(f"the primary says: {text}")

    # -- frames ---------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        self.state = "connected"
        self._must_copy = self._may_replace = self._standing.was_told = False  # it was allowed for this once
        self.was_down_ms += max(0, self._now_ms() - self.down_ms)
        self.up_ms = self.last_ms = self._acked_ms = self._now_ms()
        self._frames = FrameReader(self._replid, self._offset, *self._earlier)
        self._host.acknowledge()
        log.info("replica-linked", "following the primary from offset %d on", self._offset)

    def _take_frames(self, data: bytes) -> None:
        assert self._frames is not None
        is_asked = False
        for one in self._frames.feed(data):
            if isinstance(one, Ask):
                is_asked = True
            elif isinstance(one, Time):
                self._host.told_time(one.unix_ms)
            else:
                self._host.apply(one)
        if is_asked:
            self._acked_ms = self._now_ms()
            self._host.asked()

    # -- the end of a connection ----------------------------------------------------------------------------------

    def _end(self) -> None:
        if self.state != "connect":
            self._host.close()
            if self.state == "connected":
                self.down_ms = self._now_ms()
        self.state = "connect"
        self._frames = None
        self._lines = self._kept = b""
        if self._incoming is not None:
            self._incoming.abandon()
            self._incoming = None

    def _say(self, reason: str, pause_s: int) -> None:
        now_ms = self._now_ms()
        host, port = self._standing.primary or ("", 0)
        if now_ms - self._said.get((host, port, reason), -_SAID_EVERY_MS) < _SAID_EVERY_MS:
            return
        if len(self._said) > 100:
            self._said.clear()
        self._said[host, port, reason] = now_ms
        log.warning("replica-link", "the primary at %s:%d: %s; again in %d s", host, port, reason, pause_s)


def _bytes(option: str) -> bytes:
    return option.encode("utf-8", "surrogateescape")  # the bytes that were configured, also such as are no text


def _request(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)

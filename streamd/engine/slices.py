"""Long replies, made in slices that others' turns follow."""

from collections.abc import Callable

from streamd.base.clock import Clock
from streamd.base.errors import CommandError
from streamd.base.limits import OUTPUT_TURN_BYTES, SLICE_US
from streamd.base.log import log
from streamd.catalog import Context
from streamd.connected.client import GO_ON, Client, Unfinished
from streamd.connected.state import State
from streamd.engine.calls import Calls
from streamd.resp.types import Pause


class Slices:
    """Goes on with clients whose reply is being made, or whose requests wait.

    A turn has one slice of a reply: none in the turn of the decision, and no reply behind the last slice. So a turn's
    output for a client is either whole replies, which can be taken back if the journal cannot be written, or a part of
    a reply whose changes the journal had before.
    """

    def __init__(
        self,
        state: State,
        calls: Calls,
        run: Callable[[Context, list[list[bytes]]], None],
        pause: Callable[[Client, Unfinished, Pause], bool],
    ) -> None:
        """pause: lets a client wait for what the rest of its reply needs, unless it returns False."""
        self._pause = pause
        self._state = state
        self._calls = calls
        self._run = run

    def go_on(self, client: Context) -> None:
        """Make the next slice of a client's reply, or execute its backlog. It must not wait, nor its output."""
        self._state.guard(client, "the backlog of a client", self._go_on, client)

    def _go_on(self, client: Context) -> None:
        unfinished = client.unfinished
        if unfinished is not None:
            if client.flush_wanted or (unfinished.is_waiting and not unfinished.is_made):
                return
            self._state.wants_flush(client)
            if not unfinished.is_made:
                self._make(client, unfinished)
                return
            first = client.backlog.popleft()
            assert first is GO_ON
            client.unfinished = None
            client.out += unfinished.behind
            client.out_bytes += unfinished.behind_bytes
        if client.backlog:
            requests = list(client.backlog)
            client.backlog.clear()
            self._run(client, requests)

    def _make(self, client: Context, unfinished: Unfinished) -> None:
        stopwatch = self._calls.stopwatch
        deadline_ns, size = stopwatch() + SLICE_US * 1000, 0
        unfinished.is_begun = True
        try:
            for piece in unfinished.pieces:
                if isinstance(piece, Pause):
                    if self._pause(client, unfinished, piece):
                        break
                elif piece:
                    client.out.append(piece)
                    size += len(piece)
                if stopwatch() >= deadline_ns or size >= OUTPUT_TURN_BYTES:
                    break
            else:
                unfinished.is_made = True
        except CommandError as error:
            reason = str(error).removeprefix("ERR ")
            log.warning("reply-cut", "client %s closed in the middle of a reply: %s", client.address, reason)
            unfinished.is_made = client.close_soon = True
        except Exception:
            # In the middle of a reply the client cannot be told.
            self._calls.bug(f"the reply of {client.last_command}", may_have_changed=False)
            unfinished.is_made = client.close_soon = True
        client.out_bytes += size
        unfinished.pinned_bytes = 0 if unfinished.is_made else max(0, unfinished.pinned_bytes - size)


def end_of_slice(clock: Clock) -> Callable[[], bool]:
    """Return a function that tells whether a slice of other work, which begins now, is over."""
    now_us = clock.monotonic_us
    deadline_us = now_us() + SLICE_US
    return lambda: now_us() >= deadline_us

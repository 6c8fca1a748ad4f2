"""Transactions that arrive whole: their requests are looked at once, and run without being queued."""

from typing import Final

from streamd.base.limits import LARGE_REPLY_BYTES
from streamd.catalog import Command, CommandTable, Context
from streamd.connected.blocking import BLOCKED
from streamd.engine.calls import Calls
from streamd.resp.encoder import small_array
from streamd.resp.types import NO_REPLY, Reply, Sliced

MULTI_WORDS: Final = frozenset({b"MULTI", b"multi"})
_EXEC_WORDS: Final = frozenset({b"EXEC", b"exec"})
_UNUSUAL: Final = frozenset({"script_runner", "no_multi"})
_AT_ONCE_MAX: Final = 1_000  # requests that are looked at for an EXEC
_OK: Final = b"+OK\r\n"
_QUEUED: Final = b"+QUEUED\r\n"


class WholeTransactions:
    """Runs transactions of which MULTI and EXEC are both there."""

    def __init__(self, commands: CommandTable, calls: Calls) -> None:
        self._multi: Command = commands[b"multi"]
        self._exec: Command = commands[b"exec"]
        self._calls = calls
        self._unusual = frozenset(
            [word for name, one in commands.items() if one.flags & _UNUSUAL for word in (name, name.upper())]
        )

    def look(self, client: Context, requests: list[list[bytes]], at: int) -> list[Command]:
        """Return the commands between the MULTI at this place and its EXEC, if `run` may run them.

        Returns none where something has to be looked at request by request: a client that watches keys or is in a rarer
        state, an EXEC that has not come, a request that the user may not make, a command that does not exist or has the
        wrong number of words, a script.
        """
        quick, guard, unusual = client.quick, client.guard, self._unusual
        commands: list[Command] = []
        if not quick or client.watched or len(requests[at]) != 1:
            return commands
        if guard is not None and not (guard.allows(self._multi, requests[at]) and guard.allows(self._exec, [b"exec"])):
            return commands
        for place in range(at + 1, min(at + _AT_ONCE_MAX, len(requests))):
            request = requests[place]
            name = request[0]
            command = quick.get(name)
            if command is None:
                return commands if name in _EXEC_WORDS and len(request) == 1 else []
            arity = command.arity
            if (len(request) != arity if arity >= 0 else len(request) < -arity) or name in unusual:
                return []
            if guard is not None and not guard.allows(command, request):
                return []
            commands.append(command)
        return []

    def run(self, client: Context, requests: list[list[bytes]], at: int, commands: list[Command]) -> Reply:
        """Run what stands behind the MULTI at this place, as `look` has found it; return EXEC's reply, or BLOCKED if it
        is in the client's output by now, as the replies in front of it are. Calls are timed as in `Engine.run`.
        """
        calls, state = self._calls, client.state
        stopwatch = calls.stopwatch
        client.out += [_OK, *[_QUEUED] * len(commands)]
        self._multi.calls += 1
        self._exec.calls += 1
        replies: list[Reply] = []
        client.in_unit = True
        try:
            started_ns = then_ns = stopwatch()
            for command in commands:
                at += 1
                request = requests[at]
                client.last_command = command.name
                command.calls += 1
                try:
                    reply = command.handler(client, request)
                except Exception as error:
                    reply = calls.answer(command, client, request, error)
                now_ns = stopwatch()
                took_ns = now_ns - then_ns
                command.nanoseconds += took_ns
                if took_ns >= state.slow_ns:
                    calls.note_slow(command, took_ns, client, request)
                then_ns = now_ns
                if reply is not NO_REPLY:
                    replies.append(reply if type(reply) is not Sliced else reply.content)
        finally:
            client.in_unit = False
        calls.now_ns = then_ns
        took_ns = then_ns - started_ns
        self._exec.nanoseconds += took_ns
        if took_ns >= state.slow_ns:
            calls.note_slow(self._exec, took_ns, client, requests[at + 1])
        array = small_array(replies)
        if array is None or len(array) > LARGE_REPLY_BYTES:
            return replies
        client.out.append(array)
        return BLOCKED

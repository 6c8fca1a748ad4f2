"""Transactions that arrive whole: their commands are queued as one."""

from typing import Final

from streamd.catalog import Command, CommandTable, Context

MULTI_WORDS: Final = frozenset({b"MULTI", b"multi"})
_EXEC_WORDS: Final = frozenset({b"EXEC", b"exec"})
_UNUSUAL: Final = frozenset({"script_runner", "no_multi"})
_QUEUED_AT_ONCE_MAX: Final = 1_000  # requests that are looked at for an EXEC
_OK: Final = b"+OK\r\n"
_QUEUED: Final = b"+QUEUED\r\n"


class WholeTransactions:
    """Queues the commands of transactions of which MULTI and EXEC are both there.

    exec: the command that then runs, without a further look at it.
    """

    def __init__(self, commands: CommandTable) -> None:
        self._multi: Command = commands[b"multi"]
        self.exec: Command = commands[b"exec"]

    def queue(self, client: Context, requests: list[list[bytes]], at: int) -> int:
        """Queue what stands between the MULTI at this place and its EXEC; return the distance to the EXEC.

        Returns 0, and does nothing, where something has to be looked at request by request: a client in a rarer state,
        an EXEC that has not come, a request that the user may not make, a command that does not exist or has the wrong
        number of words, a script.
        """
        quick, guard = client.quick, client.guard
        if not quick or len(requests[at]) != 1:
            return 0
        if guard is not None and not (guard.allows(self._multi, requests[at]) and guard.allows(self.exec, [b"exec"])):
            return 0
        end = at + 1
        stop = min(len(requests), at + _QUEUED_AT_ONCE_MAX)
        while end < stop:
            request = requests[end]
            command = quick.get(request[0])
            if command is None:
                if request[0] not in _EXEC_WORDS or len(request) != 1:
                    return 0
                break
            if not command.accepts(len(request)) or not command.flags.isdisjoint(_UNUSUAL):
                return 0
            if guard is not None and not guard.allows(command, request):
                return 0
            end += 1
        else:
            return 0
        client.transaction = requests[at + 1 : end]
        client.transaction_broken = False
        client.out += [_OK, *[_QUEUED] * (end - at - 1)]
        self._multi.calls += 1
        return end - at

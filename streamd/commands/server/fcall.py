"""FCALL: functions on the server."""

from streamd.base.errors import BadKeysNumber, CommandError
from streamd.catalog import Context
from streamd.commands.server.running import declare_runner, keys_count, show_request
from streamd.resp.types import Reply


def _declare_fcall(name: str, summary: str, read_only: bool) -> None:
    def handler(context: Context, args: list[bytes]) -> Reply:
        if context.state.monitors:
            show_request(context, args)
        function = context.state.libraries.find(args[1])
        if function is None:
            raise CommandError("ERR Function not found")
        return context.services.scripts.run(context, function, keys_count(args, BadKeysNumber), args, read_only)

    declare_runner(name, "function", "7.0.0", summary, read_only, handler)


_declare_fcall("FCALL", "Run a function and return its result.", read_only=False)
_declare_fcall("FCALL_RO", "Run a function that may not write, and return its result.", read_only=True)

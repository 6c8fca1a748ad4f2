"""`streamd serve`: a server from its options to its end."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from streamd.acl.users import UnreadableUserFileError, UserFileError
from streamd.base import collector
from streamd.base.failure import (
    EXIT_ADDRESS,
    EXIT_CODES,
    EXIT_DAMAGED,
    EXIT_DIRECTORY,
    EXIT_JOURNAL,
    EXIT_OK,
    EXIT_USAGE,
    Failure,
)
from streamd.base.filesystem import FileSystem, LockedError
from streamd.base.form import form
from streamd.base.log import log, start_logging
from streamd.base.progress import ProgressLine
from streamd.base.version import REDIS_VERSION, VERSION
from streamd.configuration.layers import apply_layers
from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import OPTIONS, Config
from streamd.durability.persistence import Persistence
from streamd.durability.unread import unread
from streamd.journal.loader import LoadError
from streamd.journal.recovery import DamagedError
from streamd.net.listeners import AddressError
from streamd.net.server import Server
from streamd.net.supervision import LOADING_US, notify, take_sockets


def add_options(serve: argparse.ArgumentParser) -> None:
    """Declare the options of `streamd serve`."""
    serve.description = (
        "Run a server that redis-cli and redis-py talk to. Options are Redis's configuration names.\n"
        "Flags win over variables (STREAMD_PORT for --port), and these over the lines of FILE."
    )
    serve.epilog = EXIT_CODES
    serve.add_argument("file", metavar="FILE", nargs="?", help="a configuration file in the words of redis.conf")
    for option in OPTIONS.values():
        if option.flag:
            default = option.format(option.default)
            serve.add_argument(
                f"--{option.name}",
                nargs=2 if option.name == "replicaof" else None,
                metavar=("HOST", "PORT")
                if option.name == "replicaof"
                else option.kind.upper()
                if not option.choices
                else "|".join(option.choices),
                help=f"{option.help} (default: {default or 'none'})".replace("%", "%%"),
            )
    serve.add_argument(
        "--user",
        metavar="'NAME RULE ...'",
        action="append",
        default=[],
        help="a user, with rules as ACL SETUSER takes them; others can read them, so give hashes and no passwords, or"
        " an --aclfile; may be repeated",
    )
    serve.set_defaults(action=_serve)


def _config(arguments: argparse.Namespace) -> tuple[Config, list[str]]:
    """Return the configuration from all its layers, and lines about the settings that do not apply."""
    config, notes = Config(), []
    if arguments.file is not None:
        # A start without a file need not wait for what reads and rewrites one.
        from streamd.configuration.file import read_file
        from streamd.configuration.rewriting import rewrite_file

        found = read_file(arguments.file)
        if found.faults:
            more = f" ({len(found.faults) - 1} more: streamd config check {arguments.file})" if found.faults[1:] else ""
            raise Failure(EXIT_USAGE, f"{found.faults[0]}{more}")
        config.values.update(found.values)
        config.given.update(found.values)
        config.users = found.users
        notes += [f"{arguments.file} passed over: {note}" for note in found.notes()]
        config.path = os.path.abspath(arguments.file)
        config.on_rewrite = lambda users: rewrite_file(config.path, config, config.changed, users)
    given = {name: getattr(arguments, name.replace("-", "_"), None) for name in OPTIONS}
    flags = {
        name: " ".join(text) if isinstance(text, list) else text for name, text in given.items() if text is not None
    }
    try:
        notes += apply_layers(config, flags, os.environ)
    except ConfigError as error:
        raise Failure(EXIT_USAGE, str(error))
    given_users = [line.encode("utf-8", "surrogateescape").split() for line in arguments.user]
    if not all(given_users):
        raise Failure(
            EXIT_USAGE, "--user needs a name and rules, in one pair of quotes: --user 'ann on +@read ~orders:*'"
        )
    config.flag_users = given_users
    return config, notes


def _check_directory(directory: str) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
        os.listdir(directory)
    except OSError as error:
        raise Failure(EXIT_DIRECTORY, f"data directory {directory}: {error.strerror}; give another with --dir")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise Failure(EXIT_DIRECTORY, f"data directory {directory}: not writable; give another with --dir")


def _serve(arguments: argparse.Namespace) -> int:
    config, notes = _config(arguments)
    directory = config.text("dir") or "."
    _check_directory(directory)
    try:
        start_logging(config.text("loglevel"), config.text("log-format"), config.text("logfile"))
    except OSError as error:
        raise Failure(
            EXIT_DIRECTORY, f"logfile {config.text('logfile')}: {error.strerror}; give another with --logfile"
        )
    for note in notes:
        log.info("config-passed-over", "%s", note)
    for note in unread(FileSystem(), config):
        log.warning("data-not-read", "%s", note)
    collector.keep_out()
    return _loop_runner(_run_server(config, directory))


def _loop_runner(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return int(runner.run(main))


def _say(text: str) -> None:
    """Print a text, unless its reader has gone: a server serves without its banner, too."""
    try:
        print(text, flush=True)
    except OSError:
        # Nor can the interpreter flush it at the exit: what is left in it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


async def _run_server(config: Config, directory: str) -> int:
    try:
        server = Server(config)
    except UserFileError as error:
        what_to_do = "; make it, or give another with --aclfile" if isinstance(error, UnreadableUserFileError) else ""
        raise Failure(EXIT_USAGE, f"users: {error}{what_to_do}")
    server.inherited = take_sockets(os.environ)
    loop, starting = asyncio.get_running_loop(), asyncio.current_task()
    assert starting is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, starting.cancel)
    progress = _LoadingLine(log_is_shown=not config.text("logfile"))
    try:
        await server.start(progress.show)
    except asyncio.CancelledError:
        _say("streamd stopped before it was ready")
        return EXIT_OK
    except AddressError as error:
        raise Failure(EXIT_ADDRESS, f"{error}; choose another with {error.flags}")
    except ConfigError as error:
        raise Failure(EXIT_USAGE, str(error))
    except LockedError:
        raise Failure(EXIT_DIRECTORY, f"data directory {directory}: in use by another server; give another with --dir")
    except (DamagedError, LoadError) as error:
        raise Failure(EXIT_DAMAGED, str(error))
    except OSError as error:
        raise Failure(EXIT_DIRECTORY, f"data directory {directory}: {error.filename or ''} {error.strerror}")
    finally:
        progress.end()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.request_stop)
    loop.add_signal_handler(signal.SIGHUP, partial(_reload_tls, server))
    _say(_banner(server, directory))
    notify(os.environ, READY=1, MAINPID=os.getpid(), STATUS=f"serving on {_shown(server)}")
    if config["log-format"] == "json":
        log.info("ready", "serving on %s, process %d", _shown(server), os.getpid())
    try:
        await server.stopped.wait()
    except asyncio.CancelledError:  # a signal came behind the last wait of the start
        server.request_stop()
        await server.stopped.wait()
    notify(os.environ, STOPPING=1)
    if server.journal_failure is not None:
        raise Failure(EXIT_JOURNAL, server.journal_failure)
    _say("streamd stopped")
    return EXIT_OK


def _reload_tls(server: Server) -> None:
    try:
        server.reload_tls()
    except ConfigError as error:
        log.warning("tls-unchanged", "TLS goes on as before: %s", error)


class _LoadingLine:
    """Says how far loading has come: in a line on a terminal, once a second in the log, and to systemd.

    log_is_shown: the log goes to the standard error stream; if that is a terminal, the line there is enough.
    """

    def __init__(self, log_is_shown: bool) -> None:
        self._shown = 0
        is_terminal = sys.stderr.isatty()
        self._line = ProgressLine("loading the journal") if is_terminal else None
        self._is_logged = not (is_terminal and log_is_shown)

    def show(self, persistence: Persistence) -> None:
        """Say it, if it is time."""
        loading = persistence.journal.loading
        if self._line is not None:
            self._line.show(loading.bytes_done, loading.bytes_total)
        second = persistence.loading_ms // 1000
        if second <= self._shown:
            return
        self._shown = second
        percent = 100 * loading.bytes_done // max(loading.bytes_total, 1)
        notify(os.environ, STATUS=f"loading the journal: {percent} %", EXTEND_TIMEOUT_USEC=LOADING_US)
        if self._is_logged:
            log.info("journal-loading", "loading the journal: %d %% of %d bytes", percent, loading.bytes_total)

    def end(self) -> None:
        """Clear the line."""
        if self._line is not None:
            self._line.end()


# What runs, and how to get the other.
_FORMS: Final = {
    "pure": "pure Python; the compiled form is faster: make compiled, or STREAMD_COMPILE=1 pip install .",
    "compiled": "compiled; pure Python: pip install . without STREAMD_COMPILE",
}


def _banner(server: Server, directory: str) -> str:
    if server.addresses:
        host, port = server.addresses[0]
        encrypts = port == server.config.integer("tls-port")
        first, connect = f"{host}:{port}", f"redis-cli -h {host} -p {port}"
        if encrypts:
            connect += _tls_options(server.config)
    else:
        first, connect = server.paths[0], f"redis-cli -s {server.paths[0]}"
    persistence = "off: data is in memory and ends with this process"
    if server.persistence is not None:
        journal = server.persistence.journal
        persistence = f"journal in {journal.directory}, appendfsync {server.config['appendfsync']}"
    places = "  ".join(f"http://{place}/metrics" for place in _places(server.admin_addresses))
    admin = f"  admin port        {places}\n" if places else ""
    return (
        f"streamd {VERSION} (commands of Redis {REDIS_VERSION}), process {os.getpid()}\n"
        f"  listening on      {_shown(server)}\n"
        f"{admin}"
        f"  form              {_FORMS[form()]}\n"
        f"  data directory    {directory}\n"
        f"  persistence       {persistence}\n"
        f"  connect with      {connect}\n"
        f"  stop with         Ctrl-C, or: kill {os.getpid()}\n"
        f"Ready to accept connections on {first}"
    )


def _tls_options(config: Config) -> str:
    """Return redis-cli's options for TLS: who vouches for the server, and a certificate where the server wants one.

    The CA of clients is taken for the server's, too, as it mostly is. Words in capitals are for the reader to replace.
    """
    from shlex import quote

    options = " --tls"
    if authority := config.text("tls-ca-cert-file"):
        options += f" --cacert {quote(os.path.abspath(authority))}"
    elif directory := config.text("tls-ca-cert-dir"):
        options += f" --cacertdir {quote(os.path.abspath(directory))}"
    else:
        options += " --cacert CA.crt"
    return options + (" --cert CLIENT.crt --key CLIENT.key" if config.text("tls-auth-clients") == "yes" else "")


def _shown(server: Server) -> str:
    tls_port = server.config.integer("tls-port")
    ports = [number for _, number in server.addresses]
    places = [
        f"{place} (TLS)" if number == tls_port else place
        for place, number in zip(_places(server.addresses), ports, strict=True)
    ]
    return "  ".join([*places, *server.paths])


def _places(addresses: list[tuple[str, int]]) -> list[str]:
    return [f"[{name}]:{number}" if ":" in name else f"{name}:{number}" for name, number in addresses]

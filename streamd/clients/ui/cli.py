"""`streamd ui`: the page, from a shell."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from streamd.distribution import install_line

if TYPE_CHECKING:
    from streamd.clients.ui.page_guard import Rules

EXIT_OK, EXIT_USAGE, EXIT_ADDRESS = 0, 2, 3
URL = "redis://127.0.0.1:6379"
TOKEN_LENGTH_MIN = 16
PORT_MAX = 65_535


def add_options(ui: argparse.ArgumentParser) -> None:
    """Declare the options of `streamd ui`; its dependencies are imported only when it runs."""
    ui.description = (
        "Show the streams of a Redis-protocol server in a browser, from a process of its own: entries with"
        " a live tail, consumer groups, idempotent writes, slow requests. Needs the extra `ui`."
    )
    ui.epilog = (
        "Where others can reach the page it asks for a token: the variable STREAMD_UI_TOKEN, else one that is"
        " made and printed at the start."
    )
    ui.add_argument(
        "--url",
        default=os.environ.get("STREAMD_URL", URL),
        help="the server: redis://[user:password@]host[:port][/database], rediss:// for TLS, unix://,"
        " redis+sentinel://host[:port]/name (default: the variable STREAMD_URL, which keeps a password from other users"
        f" of the machine, else {URL})",
    )
    ui.add_argument("--port", type=int, default=8001, help="TCP port; 0 takes a free one (default: %(default)s)")
    ui.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: %(default)s)")
    ui.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name that browsers may ask the page by, besides localhost and addresses; repeatable",
    )
    ui.add_argument(
        "--allow-writes", action="store_true", help="let the page claim and acknowledge; else it changes nothing"
    )
    ui.set_defaults(action=_ui)


def _ui(arguments: argparse.Namespace) -> int:
    try:
        from streamd.clients.ui import pages, serving
        from streamd.clients.ui.source import Source, SourceError
    except ImportError as error:
        return _fail(EXIT_USAGE, f"the page needs {(error.name or '').split('.')[0]}: {install_line('ui')}")
    if not 0 <= arguments.port <= PORT_MAX:  # the system would take the rest of a division by 65,536
        return _fail(EXIT_USAGE, f"--port {arguments.port}: give one from 0 to {PORT_MAX}")
    try:
        rules = _rules(arguments)
        source = Source(arguments.url, allow_writes=arguments.allow_writes)
    except ValueError as error:
        return _fail(EXIT_USAGE, str(error))
    try:
        source.ask("PING")
        with serving.listen(arguments.bind, arguments.port) as listening:
            banner = _banner(arguments, rules, source.place, serving.place_of(listening))
            serving.serve(pages.application(source, rules), listening, lambda: print(banner, flush=True))
    except SourceError as error:
        return _fail(EXIT_ADDRESS, f"{error} Give another with --url" if "?" in str(error) else str(error))
    except (OSError, OverflowError) as error:
        text = getattr(error, "strerror", None) or str(error)
        return _fail(EXIT_ADDRESS, f"{arguments.bind}:{arguments.port}: {text}; choose another with --bind, --port")
    finally:
        source.close()
    return EXIT_OK


def _rules(arguments: argparse.Namespace) -> "Rules":
    """Return the rules of the page. Raises: ValueError, for a token that can be guessed."""
    import secrets

    from streamd.clients.ui import serving
    from streamd.clients.ui.page_guard import Rules

    names, token = frozenset(name.lower() for name in arguments.allow_host), os.environ.get("STREAMD_UI_TOKEN")
    if token is not None and len(token) < TOKEN_LENGTH_MIN:
        raise ValueError(f"STREAMD_UI_TOKEN is shorter than {TOKEN_LENGTH_MIN} characters: give a longer one, or none")
    if serving.is_loopback(arguments.bind):
        return Rules(names, token=token)
    return Rules(names | {arguments.bind.lower()}, any_address=True, token=token or secrets.token_urlsafe(24))


def _banner(arguments: argparse.Namespace, rules: "Rules", server: str, place: str) -> str:
    lines = [
        f"streamd ui, process {os.getpid()}",
        f"  shows             {server}",
        f"  open              http://{place}/",
        f"  writes            {'claim and acknowledge' if arguments.allow_writes else 'none (--allow-writes)'}",
    ]
    if rules.token is not None:
        given = "that of STREAMD_UI_TOKEN" if os.environ.get("STREAMD_UI_TOKEN") else rules.token
        lines.append(f"  token             {given}")
    return "\n".join([*lines, "  stop with         Ctrl-C"])


def _fail(code: int, text: str) -> int:
    print(f"streamd: {text}", file=sys.stderr)
    return code

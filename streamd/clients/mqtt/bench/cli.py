"""`streamd mqtt bench`: its options, and what its exit code says."""

import argparse
import json
import os
import sys
from collections.abc import Callable

EXIT_OK, EXIT_LOST, EXIT_USAGE, EXIT_ADDRESS, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
PORT_MAX = 65_535
KEEP_ALIVE_S_MAX = 65_535
SIZE_BYTES_MAX = 268_435_455 - 65_540
TEXT_BYTES_MAX = 65_535
PREFIX_BYTES_MAX = 1_000  # of client identifiers and topics, which are longer by a few bytes
KINDS = {
    "p2p": "as many publishers as subscribers, each pair with a topic of its own",
    "in": "many publishers to one subscriber",
    "out": "one publisher to many subscribers",
    "idle": "clients with a subscription that do nothing: memory and CPU of the processes",
}


def add_options(bench: argparse.ArgumentParser) -> None:
    """Declare the loads and their options."""
    bench.description = (
        "Put a load on an MQTT broker, any, and print messages/s, latencies, and the CPU that given processes took for"
        " each message. Each message is counted: the exit code is 1 if one of QoS 1 or 2 was lost or refused, or one of"
        " QoS 2 came twice; 2 for options that do not fit; 3 if the broker cannot be reached or ends a connection."
    )
    loads = bench.add_subparsers(dest="load", metavar="LOAD", required=True)
    for kind, text in KINDS.items():
        load = loads.add_parser(kind, help=text, description=text[0].upper() + text[1:] + ".")
        _add_connection_options(load, kind)
        if kind != "idle":
            _add_message_options(load)
        load.set_defaults(action=_bench, kind=kind)


def _add_connection_options(load: argparse.ArgumentParser, kind: str) -> None:
    load.add_argument("--host", default="127.0.0.1", help="the broker (default: %(default)s)")
    load.add_argument("--port", type=int, default=1883, help="its TCP port (default: %(default)s)")
    load.add_argument("--unix", metavar="PATH", help="its Unix socket, instead of host and port")
    load.add_argument("--tls-ca", metavar="FILE", help="connect by TLS, and check the broker by these certificates")
    load.add_argument(
        "--clients",
        "--pairs",
        type=_at_least(1, int),
        default=1_000,
        metavar="N",
        help="pairs, publishers, subscribers or idle clients (default: 1,000)",
    )
    load.add_argument(
        "--seconds", type=_at_least(0.01, float), default=10.0, help="how long is measured (default: %(default)g)"
    )
    load.add_argument(
        "--connect-rate",
        type=_at_least(0.1, float),
        default=1_000.0,
        metavar="N",
        help="connections/s (default: 1,000)",
    )
    load.add_argument(
        "--keep-alive",
        type=int,
        default=600 if kind == "idle" else 0,
        metavar="SECONDS",
        help="each client pings so often; 0: never (default: %(default)s)",
    )
    load.add_argument("--version", type=int, choices=(4, 5), default=4, help="MQTT 3.1.1 or 5.0 (default: 4)")
    load.add_argument("--username", metavar="NAME")
    load.add_argument(
        "--password",
        metavar="TEXT",
        default=os.environ.get("STREAMD_MQTT_PASSWORD"),
        help="(default: the variable STREAMD_MQTT_PASSWORD, which keeps it from other users of the machine)",
    )
    load.add_argument(
        "--persistent", action="store_true", help="sessions that outlast the connection; forgotten at the end"
    )
    load.add_argument(
        "--prefix",
        default="bench",
        help="client ids begin with it and a hyphen, topics with it and a slash (default: %(default)s)",
    )
    load.add_argument(
        "--process",
        type=_at_least(1, int),
        action="append",
        default=[],
        metavar="PID",
        help="a process of the broker, whose CPU is told, with its children; repeatable",
    )
    load.add_argument("--json", action="store_true", help="print the figures as one JSON object")


def _add_message_options(load: argparse.ArgumentParser) -> None:
    load.add_argument(
        "--qos",
        type=int,
        choices=(0, 1, 2),
        default=1,
        help="of messages and subscriptions (default: %(default)s)",
    )
    load.add_argument("--retain", action="store_true", help="publish with the retain flag")
    load.add_argument("--size", type=int, default=62, metavar="BYTES", help="of a payload (default: %(default)s)")
    load.add_argument(
        "--rate",
        type=_at_least(0, float),
        default=0.0,
        metavar="N",
        help="messages/s of all publishers together; 0: a closed loop (default: 0)",
    )
    load.add_argument(
        "--under-way",
        type=_at_least(1, int),
        default=1,
        metavar="N",
        help="closed loop: so many messages of each publisher at a time (default: %(default)s)",
    )
    load.add_argument(
        "--until",
        choices=("ack", "delivery"),
        default="ack",
        help="closed loop: what makes room for the next message; at QoS 0 always the delivery (default: %(default)s)",
    )
    load.add_argument(
        "--warm-up",
        type=_at_least(0, float),
        default=1.0,
        metavar="SECONDS",
        help="not measured (default: %(default)g)",
    )
    load.add_argument(
        "--drain",
        type=_at_least(0, float),
        default=10.0,
        metavar="SECONDS",
        help="at the end messages are lost when none has come for so long (default: %(default)g)",
    )


def _at_least(least: float, kind: Callable[[str], float]) -> Callable[[str], float]:
    """Return the type of an option that is a number of this kind, and not smaller."""

    def number(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = -1
        if not least <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r}: give a number of at least {least:g}")
        return value

    return number


def _fault(arguments: argparse.Namespace) -> str | None:
    """Return what is wrong with the options, in one line."""
    from streamd.clients.mqtt.bench.load import STAMP, UNDER_WAY_MAX

    if not 0 < arguments.port <= PORT_MAX:
        return f"--port {arguments.port}: give one from 1 to {PORT_MAX}"
    if not 0 <= arguments.keep_alive <= KEEP_ALIVE_S_MAX:
        return f"--keep-alive {arguments.keep_alive}: give 0 to {KEEP_ALIVE_S_MAX} seconds"
    if arguments.unix is not None and arguments.tls_ca is not None:
        return "--unix and --tls-ca: a Unix socket has no TLS"
    if any(sign in arguments.prefix for sign in "+#\0") or arguments.prefix.startswith("$"):
        return f"--prefix {arguments.prefix!r}: no wildcard, and no $ at its begin"
    texts = {"--prefix": PREFIX_BYTES_MAX, "--username": TEXT_BYTES_MAX, "--password": TEXT_BYTES_MAX}
    for option, bytes_max in texts.items():
        try:
            length = len((getattr(arguments, option[2:]) or "").encode())
        except UnicodeEncodeError:
            return f"{option}: it is not UTF-8; MQTT has only such texts"
        if length > bytes_max:
            return f"{option}: give at most {bytes_max} bytes"
    if arguments.unix == "":
        return "--unix: it is empty; give a path"
    if arguments.version == 4 and arguments.password is not None and arguments.username is None:
        return "--password: MQTT 3.1.1 takes one only with --username"
    if arguments.kind == "idle":
        return None
    if not STAMP.size <= arguments.size <= SIZE_BYTES_MAX:
        return f"--size {arguments.size}: give {STAMP.size} to {SIZE_BYTES_MAX} bytes"
    if arguments.under_way > UNDER_WAY_MAX:
        return f"--under-way {arguments.under_way}: at most {UNDER_WAY_MAX}"
    return None


def _bench(arguments: argparse.Namespace) -> int:
    from streamd.clients.mqtt.bench.client import Refused
    from streamd.clients.mqtt.bench.file_limit import TooFewFiles, make_room
    from streamd.clients.mqtt.bench.load import Load
    from streamd.clients.mqtt.bench.processes import ProcessGone
    from streamd.clients.mqtt.bench.running import run

    fault = _fault(arguments)
    if fault is not None:
        return _fail(EXIT_USAGE, fault)
    of_messages = {}
    if arguments.kind != "idle":
        of_messages = {
            "qos": arguments.qos,
            "retain": arguments.retain,
            "size_bytes": arguments.size,
            "rate": arguments.rate,
            "under_way": arguments.under_way,
            "until_delivery": arguments.until == "delivery",
            "warm_up_s": arguments.warm_up,
            "drain_s": arguments.drain,
        }
    load = Load(
        arguments.kind,
        host=arguments.host,
        port=arguments.port,
        unix=arguments.unix,
        tls_ca=arguments.tls_ca,
        clients=arguments.clients,
        seconds=arguments.seconds,
        connect_rate=arguments.connect_rate,
        keep_alive_s=arguments.keep_alive,
        version=arguments.version,
        username=arguments.username,
        password=arguments.password,
        persistent=arguments.persistent,
        prefix=arguments.prefix,
        processes=tuple(arguments.process),
        **of_messages,
    )
    try:
        make_room(load.connections)
        figures = run(load)
    except (ProcessGone, TooFewFiles) as error:
        return _fail(EXIT_USAGE, str(error))
    except Refused as error:
        return _fail(EXIT_ADDRESS, str(error))
    except OSError as error:
        return _fail(EXIT_USAGE, f"--tls-ca {load.tls_ca}: {error.strerror or error}")
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    print(json.dumps(figures.values()) if arguments.json else "\n".join(figures.lines()), flush=True)
    return EXIT_LOST if figures.is_broken else EXIT_OK


def _fail(code: int, text: str) -> int:
    print(f"streamd: {text}", file=sys.stderr)
    return code

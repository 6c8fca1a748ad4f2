"""`streamd mqtt`: the gateway, and its subcommands, from a shell."""

import argparse
import sys

from streamd.clients.mqtt import operating
from streamd.clients.server_url import without_password
from streamd.distribution import install_line

EXIT_OK, EXIT_USAGE, EXIT_ADDRESS = 0, 2, 3


def add_options(mqtt: argparse.ArgumentParser) -> None:
    """Declare the options of `streamd mqtt`; without the extra it says how to install that."""
    mqtt.description = (
        "Serve MQTT 3.1.1 and 5: what devices publish becomes entries of a topic log, each stored once;"
        " subscribers, backends and Spark read that log. Needs the extra `mqtt`."
    )
    try:
        from streamd.clients.mqtt.options import add_gateway_options
    except ImportError:
        mqtt.set_defaults(action=_without_extra, takes_any=True)  # any command and option: it names the extra
        return
    add_gateway_options(mqtt)
    mqtt.set_defaults(action=_run)
    _add_commands(mqtt)


def _add_commands(mqtt: argparse.ArgumentParser) -> None:
    from streamd.clients.mqtt.bench.cli import add_options as add_bench_options
    from streamd.clients.mqtt.options import path_of

    commands = mqtt.add_subparsers(title="commands; without one the gateway runs", metavar="COMMAND")

    def add(name: str, action: operating.Action, text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        # (A default here would replace what stands before the command.)
        one.add_argument(
            "--url",
            default=argparse.SUPPRESS,
            help="the gateway's store: redis://[user:password@]host[:port][/database], rediss://, unix://,"
            " redis+sentinel://host[:port]/name (default: the variable STREAMD_URL; without both, the server that a"
            " gateway runs in --dir)",
        )
        one.add_argument("--dir", type=path_of, default=argparse.SUPPRESS, metavar="DIR", help="see --url")
        one.add_argument("--json", action="store_true", help="print JSON, an object on each line")
        one.set_defaults(action=lambda arguments: _operate(action, arguments))
        return one

    operating.add_clients_options(add("clients", operating.clients, "print the clients that are connected"))
    session = add(
        "session",
        operating.session,
        "print the session of a client: subscriptions, position and lag in each log, messages in flight, expiry, will",
    )
    session.add_argument("client", metavar="ID", help="its client identifier")
    disconnect = add("disconnect", operating.disconnect, "close the connection of a client; its session stays")
    disconnect.add_argument("client", metavar="ID", help="its client identifier")
    add("gateways", operating.gateways, "print the gateways that run on the store")
    drain = add("drain", operating.drain, "send the clients of a gateway to others, and end it; sessions go on there")
    drain.add_argument("gateway", metavar="GATEWAY", help="its name or its run, as `gateways` prints them")
    add_bench_options(commands.add_parser("bench", help="put a load on an MQTT broker, any, and measure it"))


def _without_extra(arguments: argparse.Namespace) -> int:
    return _fail(EXIT_USAGE, f"the gateway needs more packages: {install_line('mqtt')}")


def _run(arguments: argparse.Namespace) -> int:
    from streamd.clients.mqtt.access import FileFault
    from streamd.clients.mqtt.gateway.ownership import CannotStart
    from streamd.clients.mqtt.listening import ListenFault
    from streamd.clients.mqtt.own_server import ServerFault
    from streamd.clients.mqtt.serving import serve

    try:
        return serve(arguments)
    except ListenFault as fault:
        return _fail(EXIT_ADDRESS if fault.of_place else EXIT_USAGE, str(fault))
    except (CannotStart, ServerFault) as fault:
        return _fail(EXIT_ADDRESS, str(fault))
    except (ValueError, FileFault) as fault:
        return _fail(EXIT_USAGE, str(fault))


def _operate(action: operating.Action, arguments: argparse.Namespace) -> int:
    """Run a command on the store."""
    import redis

    from streamd.clients.mqtt.asking import NoAnswer, NoGateway
    from streamd.clients.mqtt.own_server import socket_of
    from streamd.clients.sentinels import pool

    url = arguments.url
    if url is None:
        path = socket_of(arguments.dir)
        if not path.exists():
            return _fail(
                EXIT_ADDRESS, f"no gateway runs in {arguments.dir}; name its store with --url, or another --dir"
            )
        url = f"unix://{path}"
    place = without_password(url)
    try:
        with redis.Redis.from_pool(pool(url)) as store:
            fault = action(store, arguments)
    except ValueError as error:
        return _fail(EXIT_USAGE, f"--url or STREAMD_URL: {error}")
    except (NoAnswer, NoGateway) as error:
        return _fail(EXIT_ADDRESS, f"{place}: {error}")
    except redis.AuthenticationError as error:
        return _fail(EXIT_ADDRESS, f"{place}: {error}; the user and password are those in --url or STREAMD_URL")
    except redis.ConnectionError as error:
        return _fail(EXIT_ADDRESS, f"{place}: {error}; is a server running there? Give another with --url")
    except redis.RedisError as error:
        return _fail(EXIT_ADDRESS, f"{place}: {error}")
    return EXIT_OK if fault is None else _fail(EXIT_USAGE, fault)


def _fail(code: int, text: str) -> int:
    print(f"streamd: {text}", file=sys.stderr)
    return code

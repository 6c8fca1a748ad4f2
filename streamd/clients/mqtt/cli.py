"""`streamd mqtt`: the gateway, and its subcommands, from a shell."""

import argparse
import sys

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
        mqtt.set_defaults(action=_without_extra)
        return
    add_gateway_options(mqtt)
    mqtt.set_defaults(action=_run)


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


def _fail(code: int, text: str) -> int:
    print(f"streamd: {text}", file=sys.stderr)
    return code

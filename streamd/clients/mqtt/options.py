"""The options of `streamd mqtt`: declared, checked, and made into settings."""

import argparse
import os
from dataclasses import fields
from pathlib import Path
from typing import Final

from streamd.clients.mqtt.gateway.applications import Applications
from streamd.clients.mqtt.gateway.limits import Limits
from streamd.clients.mqtt.gateway.receiving import ContentRule
from streamd.clients.mqtt.listening import Listeners
from streamd.clients.mqtt.store.logs import DEFAULT_LOG, RETENTION_S, LogSettings, check_logs, parse_log
from streamd.clients.topics import layout

_SECONDS_MAX: Final = 10**9  # of what has no other limit: thirty years
_REPLICAS_MAX: Final = 100
# The gateway and the store work on one packet at a time, and other clients wait meanwhile: at most 250 ms beside those
# of this size, longer beside twice as large ones. With 256 MB the gateway lost its lease.
PACKET_BYTES_MOST: Final = 16 * 2**20
DIRECTORY: Final = "streamd-mqtt-data"
# Each limit with its option, its bounds, and its help.
_LIMITS: Final = {
    "session_expiry_max_s": ("--session-expiry-max", 0, 2**32 - 2, "seconds that a session outlives its connection"),
    "keep_alive_max_s": ("--keep-alive-max", 0, 65_535, "seconds of the longest keep alive of MQTT 5 clients; 0: any"),
    "upload_bytes_per_s_min": (
        "--upload-rate-min",
        1,
        10**9,
        "bytes per second that a packet must have which takes longer than the keep alive",
    ),
    "receive_maximum": ("--receive-maximum", 1, 65_535, "messages of QoS 1 and 2 that a client may have under way"),
    "in_flight_max": ("--in-flight-max", 1, 65_535, "messages of QoS 1 and 2 that may be under way to a client"),
    "packet_bytes_max": ("--packet-bytes-max", 1_024, PACKET_BYTES_MOST, "bytes of the largest packet that is taken"),
    "topic_alias_max": ("--topic-alias-max", 0, 65_535, "topic aliases of a connection, in each direction"),
    "iid_bytes_max": ("--iid-bytes-max", 1, 65_535, "bytes of the longest `iid`"),
    "subscriptions_max": ("--subscriptions-max", 1, 10**9, "subscriptions of a client"),
    "sessions_max": ("--sessions-max", 1, 10**9, "sessions that the store keeps"),
    "sessions_per_user_max": ("--sessions-per-user-max", 1, 10**9, "sessions of a user that the store keeps"),
    "connections_max": ("--connections-max", 1, 10**9, "open connections"),
    "wills_max": ("--wills-max", 0, 10**9, "connected clients with a will"),
    "retained_max": ("--retained-max", 0, 10**9, "topics with a retained message"),
}


# Why there is no more, where it is no limit of MQTT.
_REASONS: Final = {"--packet-bytes-max": "; beside larger packets other clients wait for more than 250 ms"}
# Each number of an application, likewise, with its metavar.
_APPLICATIONS: Final = {
    "pack": ("--application-pack", 1, 65_535, "N", "messages of a pack; the next is sent when all are acknowledged"),
    "share_pack": ("--application-share-pack", 1, 65_535, "N", "messages of a pack of a shared subscription"),
    "wait_s": ("--application-wait", 1, 86_400, "SECONDS", "for acknowledgements, from the last send of a pack"),
    "retries": (
        "--application-retries",
        0,
        10**6,
        "N",
        "how often a pack is sent again until it is dropped; 0: for ever",
    ),
    "flush": ("--application-flush", 1, 65_535, "N", "packets that are written to the socket at once; 1: each"),
}


def path_of(text: str) -> Path:
    """Return the path of an option. Raises: ArgumentTypeError, for none: Path would take it for this directory."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; give a path")
    return Path(text)


def add_gateway_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the gateway."""
    _add_store(parser)
    _add_listeners(parser)
    who = parser.add_argument_group("who may")
    who.add_argument(
        "--password-file",
        type=path_of,
        metavar="FILE",
        help="users, as mosquitto_passwd writes them; SIGHUP reads it again",
    )
    who.add_argument(
        "--acl-file", type=path_of, metavar="FILE", help="rights, as mosquitto reads them; SIGHUP reads it again"
    )
    who.add_argument(
        "--allow-anonymous", action="store_true", help="let in clients without a user, also where --bind is no loopback"
    )
    seen = parser.add_argument_group("what is seen")
    seen.add_argument("--metrics-port", type=int, metavar="PORT", help="/metrics for Prometheus, on --bind")
    seen.add_argument(
        "--sys-interval",
        type=int,
        default=10,
        metavar="SECONDS",
        help="between two values of $SYS; 0: none (default: 10)",
    )
    _add_applications(parser)
    limits = parser.add_argument_group("limits")
    defaults = Limits()
    for name, (option, _, _, text) in _LIMITS.items():
        default = getattr(defaults, name)
        limits.add_argument(
            option, type=int, dest=name, default=default, metavar="N", help=f"{text} (default: %(default)s)"
        )


def _add_store(parser: argparse.ArgumentParser) -> None:
    store = parser.add_argument_group("the store")
    store.add_argument(
        "--url",
        default=os.environ.get("STREAMD_URL"),
        help="a streamd server, or Redis 8.6 and later: redis://[user:password@]host[:port][/database], rediss://,"
        " unix://, redis+sentinel://host[:port][,host[:port]]/name (default: the variable STREAMD_URL; without both, a"
        " server of its own in --dir)",
    )
    store.add_argument(
        "--replicas",
        type=int,
        default=0,
        metavar="N",
        help="acknowledge, and deliver, only what N replicas of the store have (default: %(default)s)",
    )
    store.add_argument(
        "--dir",
        type=path_of,
        default=Path(DIRECTORY),
        metavar="DIR",
        help="the data of the gateway's own server (default: %(default)s)",
    )
    store.add_argument(
        "--appendfsync",
        choices=("always", "everysec", "no"),
        default="everysec",
        help="of the gateway's own server: when what is acknowledged is on disk (default: %(default)s)",
    )
    store.add_argument(
        "--log",
        action="append",
        default=[],
        metavar="PREFIX=NAME",
        help="put topics that begin with PREFIX/ into log NAME; it may have settings of its own:"
        " PREFIX=NAME,shards=N,retention=SECONDS; repeatable (default: all topics into log mqtt)",
    )
    store.add_argument("--shards", type=int, default=4, metavar="N", help="streams of a new log (default: %(default)s)")
    store.add_argument(
        "--retention",
        type=int,
        metavar="SECONDS",
        help=f"how long a new log keeps messages (default: {RETENTION_S}, a day)",
    )
    store.add_argument(
        "--idempotent-content",
        action="append",
        default=[],
        metavar="FILTER=SECONDS",
        help="store equal messages of a client to these topics once within each span; repeatable",
    )


def _add_listeners(parser: argparse.ArgumentParser) -> None:
    listen = parser.add_argument_group("listeners")
    listen.add_argument("--bind", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: %(default)s)")
    listen.add_argument("--port", type=int, default=1883, help="MQTT; 0 takes a free one, -1 none (default: 1883)")
    listen.add_argument(
        "--reference",
        metavar="HOST:PORT",
        help="where clients of another gateway of this store find this one, when that is being ended"
        " (default: the first listener)",
    )
    listen.add_argument("--tls-port", type=int, metavar="PORT", help="MQTT over TLS")
    listen.add_argument("--ws-port", type=int, metavar="PORT", help="MQTT over WebSocket")
    listen.add_argument("--tls-ws-port", type=int, metavar="PORT", help="MQTT over WebSocket and TLS")
    listen.add_argument("--unix", type=path_of, metavar="PATH", help="MQTT on a Unix socket")
    listen.add_argument("--tls-cert", type=path_of, metavar="FILE", help="the certificate of the gateway")
    listen.add_argument("--tls-key", type=path_of, metavar="FILE", help="its key")
    listen.add_argument(
        "--tls-ca", type=path_of, metavar="FILE", help="authorities of clients' certificates, which are asked for"
    )
    listen.add_argument(
        "--tls-user-from-certificate", action="store_true", help="the CN of a client's certificate is its user"
    )
    listen.add_argument(
        "--ws-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="origin of pages that browsers may connect from; repeatable",
    )


def _add_applications(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("applications", "backends with a persistent session, which get messages in packs")
    group.add_argument(
        "--application",
        action="append",
        default=[],
        metavar="GLOB",
        help="clients whose ID matches are applications; repeatable",
    )
    group.add_argument(
        "--application-user",
        action="append",
        default=[],
        metavar="GLOB",
        help="clients whose user name matches are applications, unless CONNECT has the user property kind=device;"
        " repeatable",
    )
    defaults = Applications()
    for name, (option, _, _, metavar, text) in _APPLICATIONS.items():
        default = getattr(defaults, name)
        group.add_argument(
            option,
            type=int,
            dest=f"application_{name}",
            default=default,
            metavar=metavar,
            help=f"{text} (default: %(default)s)",
        )
    group.add_argument(
        "--application-strategy",
        choices=("retry", "skip"),
        default="retry",
        help="for a pack that is not acknowledged in time: send it again, or drop it (default: %(default)s)",
    )
    group.add_argument(
        "--resend-v5",
        action="store_true",
        help="send packs again within a connection of MQTT 5, too. The standard forbids it ([MQTT-4.4.0-1]); without"
        " this, the client is disconnected, and gets the rest when it comes again",
    )


def applications_of(arguments: argparse.Namespace) -> Applications:
    """Return which clients are applications, and how they are treated. Raises: ValueError."""
    for option, globs, example in (
        ("--application", arguments.application, "backend-*"),
        ("--application-user", arguments.application_user, "service-*"),
    ):
        if "" in globs:
            raise ValueError(f"{option}: it is empty; give a glob, such as {example}")
    found = {}
    for name, (option, least, most, _, _) in _APPLICATIONS.items():
        value = getattr(arguments, f"application_{name}")
        if not least <= value <= most:
            raise ValueError(f"{option} {value}: give a number from {least} to {most}")
        found[name] = value
    return Applications(
        tuple(arguments.application),
        tuple(arguments.application_user),
        skips=arguments.application_strategy == "skip",
        resend_v5=arguments.resend_v5,
        **found,
    )


def limits_of(arguments: argparse.Namespace) -> Limits:
    """Return the limits. Raises: ValueError."""
    found = {}
    for one in fields(Limits):
        if one.name not in _LIMITS:
            continue
        option, least, most, _ = _LIMITS[one.name]
        value = getattr(arguments, one.name)
        if not least <= value <= most:
            reason = _REASONS.get(option, "") if value > most else ""
            raise ValueError(f"{option} {value}: give a number from {least} to {most}{reason}")
        found[one.name] = value
    return Limits(**found)


def listeners_of(arguments: argparse.Namespace) -> Listeners:
    """Return the listeners."""
    return Listeners(
        bind=arguments.bind,
        port=None if arguments.port == -1 else arguments.port,
        tls_port=arguments.tls_port,
        ws_port=arguments.ws_port,
        tls_ws_port=arguments.tls_ws_port,
        unix=arguments.unix,
        tls_cert=arguments.tls_cert,
        tls_key=arguments.tls_key,
        tls_ca=arguments.tls_ca,
        tls_user_from_certificate=arguments.tls_user_from_certificate,
        ws_origins=tuple(arguments.ws_origin),
        ws_message_bytes_max=arguments.packet_bytes_max + 65_536,
        connections_max=arguments.connections_max,
    )


def logs_of(arguments: argparse.Namespace) -> list[LogSettings]:
    """Return the logs. Raises: ValueError."""
    if not 1 <= arguments.shards <= layout.SHARDS_MAX:
        raise ValueError(f"--shards {arguments.shards}: give a number from 1 to {layout.SHARDS_MAX}")
    retention_s = RETENTION_S if arguments.retention is None else arguments.retention
    if not 1 <= retention_s <= _SECONDS_MAX:
        raise ValueError(f"--retention {retention_s}: give a number from 1 to {_SECONDS_MAX}")
    logs = [parse_log(one, arguments.shards, retention_s) for one in arguments.log]
    logs.append(LogSettings(DEFAULT_LOG, None, arguments.shards, retention_s))
    check_logs(logs)
    return logs


def sys_interval_of(arguments: argparse.Namespace) -> int:
    """Return the seconds between two values of $SYS. Raises: ValueError."""
    seconds: int = arguments.sys_interval
    if not 0 <= seconds <= _SECONDS_MAX:
        raise ValueError(f"--sys-interval {seconds}: give seconds up to {_SECONDS_MAX}, or 0 for no topics below $SYS")
    return seconds


def replicas_of(arguments: argparse.Namespace) -> int:
    """Return how many replicas have to confirm. Raises: ValueError."""
    replicas: int = arguments.replicas
    if not 0 <= replicas <= _REPLICAS_MAX:
        raise ValueError(f"--replicas {replicas}: give a number from 0 to {_REPLICAS_MAX}")
    if replicas and arguments.url is None:
        raise ValueError("--replicas: the gateway's own server has none; give a store with --url")
    return replicas


def rules_of(arguments: argparse.Namespace) -> list[ContentRule]:
    """Return the rules for messages without a name. Raises: ValueError."""
    return [ContentRule(one) for one in arguments.idempotent_content]

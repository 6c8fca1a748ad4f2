"""`streamd mqtt clients | session | gateways` and the like: what operators see and do from a shell."""

import argparse
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import redis

_COUNT: Final = 100
_GATEWAY_COLUMNS: Final = ("GATEWAY", "RUN", "HOST", "PROCESS", "CLIENTS", "KEEPER")
_NUMBERS: Final = ("SUBSCRIPTIONS", "IN FLIGHT", "NOT ACKNOWLEDGED", "RETRIES", "RETENTION LEFT")
_APPLICATION_COLUMNS: Final = ("CLIENT", "USER", "GATEWAY", "NOT ACKNOWLEDGED", "RETRIES", "RETENTION LEFT", "LAG")
_COLUMNS: Final = ("CLIENT", "USER", "ADDRESS", "VERSION", "CONNECTED SINCE", "SUBSCRIPTIONS", "IN FLIGHT", "LAG")

Action = Callable[["redis.Redis", argparse.Namespace], str | None]  # returns what is wrong


def add_clients_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `clients`."""
    parser.add_argument(
        "--count", type=int, default=_COUNT, metavar="N", help=f"at most so many clients; 0: all (default: {_COUNT})"
    )
    parser.add_argument("--after", default="", metavar="ID", help="those that follow this client")
    parser.add_argument("--match", default="", metavar="GLOB", help="those whose client identifier matches")
    parser.add_argument(
        "--applications",
        action="store_true",
        help="only applications: with their gateway, packs, retries, and the time until the retention removes what they"
        " have to get",
    )


def clients(store: "redis.Redis", arguments: argparse.Namespace) -> str | None:
    """Print the clients that are connected."""
    from streamd.clients.mqtt import asking

    if arguments.count < 0:
        return f"--count {arguments.count}: give the number of clients, or 0 for all"
    shown, last = 0, asking.Page([], 0, None)
    row, columns = (_application_row, _APPLICATION_COLUMNS) if arguments.applications else (_row, _COLUMNS)
    applications = arguments.applications
    for page in asking.clients(store, arguments.count, arguments.after, arguments.match, applications=applications):
        if arguments.json:
            for one in page.clients:
                print(json.dumps(one, ensure_ascii=False))
        else:
            print("\n".join(_table(columns, [row(one) for one in page.clients], has_head=not shown)))
        shown, last = shown + len(page.clients), page
    if not arguments.json:
        more = f"; more: --after '{shown_text(last.more_after)}'" if last.more_after is not None else ""
        print(f"{shown:,} of {last.number:,} {'applications' if applications else 'clients'}{more}")
    return None


def _row(one: dict[str, Any]) -> list[str]:
    return [
        shown_text(one["client"]),
        shown_text(one["user"] or "-"),
        f"{one['listener']} {one['address']}" if one["address"] != one["listener"] else one["address"],
        one["version"],
        one["since"],
        f"{one['subscriptions']:,}",
        f"{one['in_flight']:,}",
        _behind_all(one),
    ]


def _application_row(one: dict[str, Any]) -> list[str]:
    application = one["application"]
    left_s = application["retention_left_s"]
    return [
        shown_text(one["client"]),
        shown_text(one["user"] or "-"),
        shown_text(one["gateway"] or "-"),
        f"{application['unacknowledged']:,} of {application['taken'] or 0:,}",
        f"{application['retries']:,}",
        "-" if left_s is None else f"{left_s:,.0f} s",
        _behind_all(one),
    ]


def _behind_all(one: dict[str, Any]) -> str:
    return ", ".join(_behind(name, lag) for name, lag in one["lag"].items()) or "-"


def _behind(name: str, lag: dict[str, Any]) -> str:
    messages = "" if lag["messages"] is None else f"{lag['messages']:,} messages, "
    return f"{name}: {messages}{lag['seconds']:,.1f} s"


def _table(columns: tuple[str, ...], rows: list[list[str]], has_head: bool) -> list[str]:
    lines = [list(columns), *rows] if has_head else rows
    widths = [max((len(line[at]) for line in lines), default=0) for at in range(len(columns))]
    numbers = [at for at, name in enumerate(columns) if name in _NUMBERS]
    return [
        "  ".join(
            cell.rjust(width) if at in numbers else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def session(store: "redis.Redis", arguments: argparse.Namespace) -> str | None:
    """Print a session."""
    from streamd.clients.mqtt import asking

    found = asking.session(store, arguments.client)
    if found is None:
        return f"there is no session of client {arguments.client!r}"
    print(json.dumps(found, ensure_ascii=False) if arguments.json else "\n".join(_lines(found)))
    return None


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [
        _fact("client", shown_text(found["client"])),
        _fact("user", shown_text(found["user"] or "(anonymous)")),
        _fact("connected", _connected(found)),
        _fact("expiry", f"{found['expiry_s']:,} seconds after the connection" + _ends(found)),
        *_application_lines(found.get("application")),
    ]
    lines.append(_fact("subscriptions", f"{found['subscriptions_number']:,}"))
    lines += [f"  {shown_text(one['filter'])}  QoS {one['qos']}{_options(one)}" for one in found["subscriptions"]]
    lines += _rest(found["subscriptions"], found["subscriptions_number"])
    lines.append(_fact("logs", f"{len(found['positions']):,}"))
    for name, position in found["positions"].items():
        lines.append(f"  {name}  {_lag(found['lag'].get(name))}; position {position}")
    lines.append(_fact("in flight", f"{found['in_flight_number']:,}"))
    for one in found["in_flight"]:
        share = f"  share {shown_text(one['share'])}" if "share" in one else ""
        lines.append(f"  {one['packet']}  QoS {one['qos']}  {one['state']}  {one['stream']} {one['entry']}{share}")
    lines += _rest(found["in_flight"], found["in_flight_number"])
    lines.append(_fact("will", _will(found["will"])))
    return lines


def _application_lines(application: dict[str, Any] | None) -> list[str]:
    if application is None:
        return []
    left_s = application["retention_left_s"]
    left = "it reads no log by itself" if left_s is None else f"{left_s:,.0f} s, for what it has to get next"
    lines = [_fact("kind", "application"), _fact("retention left", left)]
    for one in application["packs"]:
        taken = "" if one["taken"] is None else f" of {one['taken']:,}"
        share = "" if one["share"] is None else f"share {shown_text(one['share'])}: "
        text = f"{share}{one['unacknowledged']:,}{taken} not acknowledged, sent again {one['retries']:,} times"
        lines.append(_fact("pack", text))
    return lines


def _fact(name: str, text: str) -> str:
    return f"{name:<14} {text}"


def _connected(found: dict[str, Any]) -> str:
    if not found["is_connected"]:
        # A gateway owns the session, and its client is not connected: it was killed, or writes the last notes.
        return (
            "no" if found["gateway"] is None else f"no; the session is that of gateway {shown_text(found['gateway'])}"
        )
    place = f"from {found['address']} ({found['listener']}), MQTT {found['version']}"
    gateway = "" if found["gateway"] is None else f", at gateway {shown_text(found['gateway'])}"
    return f"since {found['since']}, {place}{gateway}"


def _ends(found: dict[str, Any]) -> str:
    return f", at {found['ends']}" if found["ends"] else ""


def _options(one: dict[str, Any]) -> str:
    words = [name.replace("_", " ").removeprefix("is ") for name, value in one.items() if value is True]
    if "identifier" in one:
        words.append(f"identifier {one['identifier']}")
    return "".join(f", {word}" for word in words)


def _lag(lag: dict[str, Any] | None) -> str:
    if lag is None:
        return "the log does not exist any more"
    if not lag["messages"]:
        return "up to date"
    about = "" if lag["is_exact"] else "about "
    messages = "1 message" if lag["messages"] == 1 else f"{lag['messages']:,} messages"
    return f"{about}{messages} behind, the next one stored {lag['seconds']:,.1f} s ago"


def _rest(listed: list[Any], number: int) -> list[str]:
    return [f"  ... and {number - len(listed):,} more"] if number > len(listed) else []


def _will(will: dict[str, Any] | None) -> str:
    if will is None:
        return "none"
    retain = ", retained" if will["retain"] else ""
    due = f", due at {will['due']}" if will["due"] else f", delay {will['delay_s']:,} s"
    return f"{shown_text(will['topic'])}  QoS {will['qos']}{retain}, {will['bytes']:,} bytes{due}"


def disconnect(store: "redis.Redis", arguments: argparse.Namespace) -> str | None:
    """Close a client's connection."""
    from streamd.clients.mqtt import asking

    if not any(one["is_connected"] for one in asking.ask(store, "disconnect", "is_connected", client=arguments.client)):
        return f"client {arguments.client!r} is not connected"
    print(json.dumps({"client": arguments.client, "is_closed": True}) if arguments.json else "closed")
    return None


def gateways(store: "redis.Redis", arguments: argparse.Namespace) -> str | None:
    """Print the gateways that run on the store."""
    from streamd.clients.mqtt import asking

    said = {one["gateway"]: one for one in asking.ask(store, "gateways")}
    rows = [_GATEWAY_COLUMNS]
    for one in asking.gateways(store):
        if one.run not in said:
            continue
        clients, is_keeper = said[one.run]["clients"], said[one.run]["is_keeper"]
        host = one.host.partition(" ")[0]
        if arguments.json:
            found = {"gateway": one.name, "run": one.run, "host": host, "process": one.process}
            print(json.dumps({**found, "clients": clients, "is_keeper": is_keeper}, ensure_ascii=False))
        keeper = "yes" if is_keeper else "no"
        rows.append((shown_text(one.name) or "-", one.run, shown_text(host), str(one.process), f"{clients:,}", keeper))
    if not arguments.json:
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return None


def drain(store: "redis.Redis", arguments: argparse.Namespace) -> str | None:
    """Let the clients of a gateway go to others, and end it."""
    from streamd.clients.mqtt import asking

    running = asking.gateways(store)
    if not running:
        raise asking.NoGateway
    found = [one for one in running if arguments.gateway in (one.name, one.run)]
    names = ", ".join(one.name or one.run for one in running)
    if len(found) != 1:
        return f"gateway {arguments.gateway!r}: give one of these, or its run: {names}"
    if len(running) == 1:
        return (
            f"no other gateway runs on this store, so {names}'s clients could go nowhere; SIGTERM ends it all the same"
        )
    asking.ask(store, "drain", "is_draining", gateway=found[0].run)
    said = {"run": found[0].run, "is_draining": True}
    print(json.dumps(said) if arguments.json else "its clients go to other gateways, and it ends")
    return None


def shown_text(text: str) -> str:
    """Return a client's text for a terminal: characters that cannot be printed come as escapes."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)

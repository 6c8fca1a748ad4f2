"""A server's part in replication, told in words for people, from what INFO replication says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# So many replicas are named.
_NAMED_MAX: Final = 5
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class Role:
    """What a server is. is_well: all its links are up."""

    text: str
    is_well: bool


def role_of(info: Mapping[str, str]) -> Role | None:
    """Return the role of a server; None for one without replication, or that does not tell."""
    if info.get("role") == "slave":
        return _replica(info)
    found = [
        _pairs(info[f"slave{number}"])
        for number in range(_number(info, "connected_slaves"))
        if f"slave{number}" in info
    ]
    if not found:
        return None
    offset = _number(info, "master_repl_offset")
    named = [_follower(one, offset) for one in found[:_NAMED_MAX]]
    more = f"; {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    count = f"{len(found)} replica{'s' * (len(found) != 1)}"
    return Role(f"primary of {count}: {'; '.join(named)}{more}", all(one.get("state") == "online" for one in found))


def _replica(info: Mapping[str, str]) -> Role:
    of = f"replica of {info.get('master_host', '?')}:{info.get('master_port', '?')}"
    if info.get("master_link_status") == "up":
        since = info.get("master_link_up_since_seconds")  # (Redis 7.0 does not tell it.)
        up = "link up" if since is None else f"link up for {_span(int(since))}"
        return Role(f"{of}: {up}, heard {_span(_number(info, 'master_last_io_seconds_ago'))} ago", True)
    if info.get("master_sync_in_progress") == "1":
        return Role(f"{of}: takes all data", False)
    return Role(f"{of}: link down for {_span(_number(info, 'master_link_down_since_seconds'))}", False)


def _follower(one: Mapping[str, str], offset: int) -> str:
    place = f"{one.get('ip', '?')}:{one.get('port', '?')}"
    if one.get("state") != "online":
        return f"{place} takes all data"
    behind = max(0, offset - _number(one, "offset"))
    return f"{place} is {behind:,} bytes behind, heard {_span(_number(one, 'lag'))} ago"


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")
    return int(text) if text.lstrip("-").isdigit() else 0


def _span(seconds: int) -> str:
    for unit, word in _UNITS:
        if seconds >= unit:
            return f"{seconds // unit} {word}"
    return f"{max(0, seconds)} s"

"""The bounds of a gateway, each with its default and its reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds per client, per user and in all; the command line has an option for each.

    session_expiry_max_s: also for clients of 3.1.1, whose sessions would have no end. keep_alive_max_s: 0 lets clients
    have none. upload_bytes_per_s_min: of a packet that is on its way for longer than the keep alive.
    receive_maximum: messages of QoS 1 and 2 that a client may have under way. in_flight_max: the same
    outwards, also for clients that would take more. iid_bytes_max: the length of an `iid`, which the window keeps.
    """

    session_expiry_max_s: int = 7 * 86_400
    keep_alive_max_s: int = 0
    upload_bytes_per_s_min: int = 1_000
    receive_maximum: int = 1_000
    in_flight_max: int = 1_000
    packet_bytes_max: int = 1_048_576
    topic_alias_max: int = 100
    iid_bytes_max: int = 256
    client_id_bytes_max: int = 1_024
    subscriptions_max: int = 1_000
    sessions_max: int = 1_000_000
    sessions_per_user_max: int = 1_000_000
    connections_max: int = 100_000
    retained_max: int = 1_000_000
    wills_max: int = 1_000_000
    connect_s: float = 10.0
    # After so long without a sign, what a member of a shared subscription has not acknowledged goes to another one.
    share_lease_ms: int = 30_000
    # Of each log the newest entries are kept, for sessions that are a little behind.
    ring_entries_max: int = 20_000
    ring_bytes_max: int = 16 * 2**20

"""All files of cases: importing them enters their cases in the list."""

from tests.mqtt.conformance import (
    on_closing,
    on_connecting,
    on_flow,
    on_limits,
    on_packets,
    on_publishing,
    on_retained,
    on_sessions,
    on_shared,
    on_subscribing,
    on_topics,
    on_web_sockets,
    on_wills,
)

__all__ = [
    "on_closing",
    "on_connecting",
    "on_flow",
    "on_limits",
    "on_packets",
    "on_publishing",
    "on_retained",
    "on_sessions",
    "on_shared",
    "on_subscribing",
    "on_topics",
    "on_web_sockets",
    "on_wills",
]

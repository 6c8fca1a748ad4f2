"""Sessions of offline MQTT subscribers, which a broker keeps through its Redis client."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamd.clients.sessions.async_store import AsyncDeviceStore
    from streamd.clients.sessions.messages import Damaged, Message, Messages
    from streamd.clients.sessions.requests import Session
    from streamd.clients.sessions.store import BufferedStore, DeviceStore

# Looked up when first used: what is here of scripts and keys can be had without redis-py, too.
_PLACES = {
    "AsyncDeviceStore": "async_store",
    "BufferedStore": "store",
    "Damaged": "messages",
    "DeviceStore": "store",
    "Message": "messages",
    "Messages": "messages",
    "Session": "requests",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)


__all__ = ["AsyncDeviceStore", "BufferedStore", "Damaged", "DeviceStore", "Message", "Messages", "Session"]

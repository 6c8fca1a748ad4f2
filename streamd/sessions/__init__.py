"""Sessions of MQTT subscribers that are offline: what a broker keeps for them, by its Redis client."""

from streamd.sessions.async_store import AsyncDeviceStore
from streamd.sessions.messages import Message
from streamd.sessions.requests import Session
from streamd.sessions.store import DeviceStore

__all__ = ["AsyncDeviceStore", "DeviceStore", "Message", "Session"]

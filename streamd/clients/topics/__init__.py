"""Topics: publish to a log by topic, replay it by filter from any time."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamd.clients.topics.async_log import AsyncMember, AsyncTopicLog
    from streamd.clients.topics.filters import TopicFilter
    from streamd.clients.topics.handle import LogDropped
    from streamd.clients.topics.iterators import Iterator
    from streamd.clients.topics.messages import Entry, Message
    from streamd.clients.topics.publishing import NotStored
    from streamd.clients.topics.reading import Batch
    from streamd.clients.topics.recorded import IidsForgotten
    from streamd.clients.topics.shares import Delivery
    from streamd.clients.topics.topic_log import Member, TopicLog

# Looked up when first used: the command line knows this package also where redis-py is not installed.
_PLACES = {
    "AsyncMember": "async_log",
    "AsyncTopicLog": "async_log",
    "Batch": "reading",
    "Delivery": "shares",
    "Entry": "messages",
    "IidsForgotten": "recorded",
    "Iterator": "iterators",
    "LogDropped": "handle",
    "Member": "log",
    "Message": "messages",
    "NotStored": "publishing",
    "TopicFilter": "filters",
    "TopicLog": "log",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)


__all__ = [
    "AsyncMember",
    "AsyncTopicLog",
    "Batch",
    "Delivery",
    "Entry",
    "IidsForgotten",
    "Iterator",
    "LogDropped",
    "Member",
    "Message",
    "NotStored",
    "TopicFilter",
    "TopicLog",
]

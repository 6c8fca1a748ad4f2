"""Publishing and subscribing."""

from collections.abc import Callable, Iterable

from streamd.base.errors import SubcommandSyntax
from streamd.base.glob import compile_glob
from streamd.catalog import Context, command, container
from streamd.connected.client import Client
from streamd.resp.encoder import bulk, encode
from streamd.resp.types import NO_REPLY, Push, Raw, Reply

_FLAGS = "pubsub noscript loading stale"
_SUB = "pubsub loading stale"


def _announce(context: Context, word: bytes, names: Iterable[bytes], change: Callable[[Client, bytes], None]) -> Reply:
    """Change one subscription after the other and return a push for each."""
    client = context.client
    pushes = []
    head = (b">3\r\n" if client.protocol > 2 else b"*3\r\n") + bulk(word)
    for name in names:
        change(client, name)
        pushes.append(b"%b$%d\r\n%b\r\n:%d\r\n" % (head, len(name), name, client.subscription_count()))
    if not pushes:
        pushes.append(encode(Push([word, None, client.subscription_count()]), client.protocol))
    context.update_quick()
    replies = b"".join(pushes)
    if client.reply_mode == "on":
        return Raw(replies)
    client.out.append(replies)  # pushes are sent although replies are not
    return NO_REPLY


@command(
    "SUBSCRIBE", arity=-2, flags=f"denyoom {_FLAGS}", since="2.0.0", complexity="O(N), N the channels", group="pubsub",
    syntax="channel [channel ...]",
)  # fmt: skip
def subscribe(context: Context, args: list[bytes]) -> Reply:
    """Subscribe to channels.

    Reply: a push for each channel: subscribe, channel, number of subscriptions.
    """
    return _announce(context, b"subscribe", args[1:], context.state.pubsub.subscribe)


@command(
    "PSUBSCRIBE", arity=-2, flags=f"denyoom {_FLAGS}", since="2.0.0", complexity="O(N), N the patterns", group="pubsub",
    syntax="pattern [pattern ...]",
)  # fmt: skip
def psubscribe(context: Context, args: list[bytes]) -> Reply:
    """Subscribe to the channels that match patterns.

    Reply: a push for each pattern: psubscribe, pattern, number of subscriptions.
    """
    return _announce(context, b"psubscribe", args[1:], context.state.pubsub.subscribe_pattern)


@command(
    "UNSUBSCRIBE", arity=-1, flags=_FLAGS, since="2.0.0", complexity="O(N), N the channels", group="pubsub",
    syntax="[channel [channel ...]]",
)  # fmt: skip
def unsubscribe(context: Context, args: list[bytes]) -> Reply:
    """End subscriptions to channels, without arguments to all.

    Reply: a push for each channel: unsubscribe, channel, number of subscriptions left.
    """
    channels = args[1:] or list(context.client.subscriptions or ())
    return _announce(context, b"unsubscribe", channels, context.state.pubsub.unsubscribe)


@command(
    "PUNSUBSCRIBE", arity=-1, flags=_FLAGS, since="2.0.0", complexity="O(N), N the patterns", group="pubsub",
    syntax="[pattern [pattern ...]]",
)  # fmt: skip
def punsubscribe(context: Context, args: list[bytes]) -> Reply:
    """End subscriptions to patterns, without arguments to all.

    Reply: a push for each pattern: punsubscribe, pattern, number of subscriptions left.
    """
    patterns = args[1:] or list(context.client.patterns or ())
    return _announce(context, b"punsubscribe", patterns, context.state.pubsub.unsubscribe_pattern)


@command(
    "PUBLISH", arity=3, flags="pubsub loading stale fast", since="2.0.0",
    complexity="O(N+M), N the receivers, M the patterns", group="pubsub", syntax="channel message",
)  # fmt: skip
def publish(context: Context, args: list[bytes]) -> Reply:
    """Send a message to all subscribers; return how many times it was sent."""
    return context.state.pubsub.publish(args[1], args[2])


container(
    "PUBSUB",
    since="2.8.0",
    help_since="6.2.0",
    group="pubsub",
    help_lines=[
        "CHANNELS [<pattern>]",
        "    Show the channels that somebody is subscribed to.",
        "NUMPAT",
        "    Show how many patterns somebody is subscribed to.",
        "NUMSUB [<channel> ...]",
        "    Show how many are subscribed to each channel.",
        "SHARDCHANNELS [<pattern>]",
        "    Show nothing: there are no shard channels.",
        "SHARDNUMSUB [<shardchannel> ...]",
        "    Show 0 for each: there are no shard channels.",
    ],
)


@command(
    "PUBSUB CHANNELS", arity=-2, flags=_SUB, since="2.8.0", complexity="O(N), N the channels", group="pubsub",
    syntax="[pattern]",
)  # fmt: skip
def pubsub_channels(context: Context, args: list[bytes]) -> Reply:
    """Return the channels with subscribers."""
    if len(args) > 3:
        raise SubcommandSyntax(args)
    matches = compile_glob(args[2] if len(args) == 3 else b"*")
    return [channel for channel in context.state.pubsub.channels if matches(channel)]


@command(
    "PUBSUB NUMSUB", arity=-2, flags=_SUB, since="2.8.0", complexity="O(N), N the channels asked for", group="pubsub",
    syntax="[channel [channel ...]]",
)  # fmt: skip
def pubsub_numsub(context: Context, args: list[bytes]) -> Reply:
    """Return the number of subscribers of each channel, patterns not counted.

    Reply: array of channels and numbers.
    """
    channels = context.state.pubsub.channels
    return [word for channel in args[2:] for word in (channel, len(channels.get(channel, ())))]


@command("PUBSUB NUMPAT", arity=2, flags=_SUB, since="2.8.0", complexity="O(1)", group="pubsub")
def pubsub_numpat(context: Context, args: list[bytes]) -> Reply:
    """Return the number of patterns with subscribers."""
    return len(context.state.pubsub.patterns)


@command(
    "PUBSUB SHARDCHANNELS", arity=-2, flags=_SUB, since="7.0.0", complexity="O(1)", group="pubsub", syntax="[pattern]",
)  # fmt: skip
def pubsub_shardchannels(context: Context, args: list[bytes]) -> Reply:
    """Return the shard channels with subscribers: an empty list."""
    if len(args) > 3:
        raise SubcommandSyntax(args)
    return []


@command(
    "PUBSUB SHARDNUMSUB", arity=-2, flags=_SUB, since="7.0.0", complexity="O(N), N the channels asked for",
    group="pubsub", syntax="[shardchannel [shardchannel ...]]",
)  # fmt: skip
def pubsub_shardnumsub(context: Context, args: list[bytes]) -> Reply:
    """Return the number of subscribers of each shard channel: always 0."""
    return [word for channel in args[2:] for word in (channel, 0)]

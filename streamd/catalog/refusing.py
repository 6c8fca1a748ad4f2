"""A refusal: noted in the log, and said to the client."""

from streamd.acl.decision import Decision
from streamd.base.errors import NoPermission
from streamd.connected.client import Client
from streamd.connected.state import State


def refuse(state: State, client: Client, decision: Decision, context: str) -> NoPermission:
    """Note that a request was refused, and return the error that says so; context: as in NoPermission."""
    note_refusal(state, client, decision.reason, decision.object, client.user.name, context)
    user, named = (name.decode("utf-8", "surrogateescape") for name in (client.user.name, decision.object))
    return NoPermission(user, decision.reason, named, context)


def note_refusal(state: State, client: Client, reason: str, named: bytes, username: bytes, context: str) -> None:
    """Note in the log of refusals a request that was refused, or a login that failed."""
    now_ms = state.clock.now_ms()
    context = "multi" if context == "exec" else context
    length_max = state.config.integer("acllog-max-len")
    state.refusals.add(reason, context, named, username, client.describe(state.time.monotonic_ms), now_ms, length_max)

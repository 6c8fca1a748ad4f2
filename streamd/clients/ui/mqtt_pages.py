"""The pages about an MQTT gateway: its sessions, one of them, and the retained messages."""

from starlette.requests import Request
from starlette.responses import Response

from streamd.clients.ui import mqtt_retained, mqtt_sessions
from streamd.clients.ui.names import bytes_of
from streamd.clients.ui.rendering import Templates
from streamd.clients.ui.source import Source, SourceError


class MqttPages:
    """The pages, of one server."""

    def __init__(self, source: Source, show: Templates) -> None:
        self._source, self._show = source, show

    def sessions(self, request: Request) -> Response:
        """Show a page of the sessions."""
        start = _whole(request.query_params.get("from", ""))
        show = "backends" if request.query_params.get("show") == "backends" else ""
        page = mqtt_sessions.find(self._source, start, applications=bool(show))
        return self._show.page("mqtt_sessions.html", page=page, start=start, show=show)

    def session(self, request: Request) -> Response:
        """Show a session."""
        client = bytes_of(request.query_params.get("client", ""))
        found = mqtt_sessions.whole(self._source, client)
        if found is None:
            raise SourceError("there is no session of this client (any more)", 404)
        return self._show.page("mqtt_session.html", one=found, session=found.session)

    def retained(self, request: Request) -> Response:
        """Show a page of the retained messages of a log."""
        logs = mqtt_retained.logs(self._source)
        log = request.query_params.get("log", "") or next(
            (one for one in logs if one == "mqtt"), logs[0] if logs else ""
        )
        match, cursor = request.query_params.get("match", ""), str(_whole(request.query_params.get("cursor", "")))
        page = mqtt_retained.find(self._source, log, bytes_of(match), cursor) if log in logs else None
        return self._show.page(
            "mqtt_retained.html", page=page, logs=logs, log=log, match=match, is_first=cursor == "0"
        )  # fmt: skip


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0

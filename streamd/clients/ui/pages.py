"""The pages behind each address, and the requests that may change something."""

from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from streamd.clients.ui import entries, groups, mqtt_sessions, slow_log, streams, tables
from streamd.clients.ui.moments import entry_id_of, is_entry_id
from streamd.clients.ui.mqtt_pages import MqttPages
from streamd.clients.ui.names import bytes_of
from streamd.clients.ui.ordering import Columns, Order, in_order, order_of
from streamd.clients.ui.overview import Look, Overview
from streamd.clients.ui.page_guard import COOKIE, Guard, Rules
from streamd.clients.ui.rendering import STATIC, Templates, address
from streamd.clients.ui.source import Source, SourceError
from streamd.clients.ui.streams import Stream

FORM_BYTES_MAX = 64 << 10
GROUPS_PER_PAGE = 50


def application(source: Source, rules: Rules) -> Guard:
    """Return the ASGI application that shows a server, behind its guard."""
    pages = Pages(source, rules)
    routes = [
        Route("/", pages.overview),
        Route("/streams", pages.streams),
        Route("/groups/all", pages.all_groups),
        Route("/stream", pages.stream),
        Route("/tail", pages.tail),
        Route("/entry", pages.entry),
        Route("/groups", pages.groups),
        Route("/group", pages.group),
        Route("/idempotence", pages.idempotence),
        Route("/slow-log", pages.slow_log),
        Route("/mqtt", pages.mqtt.sessions),
        Route("/mqtt/session", pages.mqtt.session),
        Route("/mqtt/retained", pages.mqtt.retained),
        Route("/login", pages.login, methods=["GET"]),
        Route("/login", pages.sign_in, methods=["POST"]),
        Route("/group/acknowledge", pages.acknowledge, methods=["POST"]),
        Route("/group/claim", pages.claim, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers = {SourceError: pages.failure, 404: pages.missing}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), rules)


class Pages:
    """The pages, of one server."""

    def __init__(self, source: Source, rules: Rules) -> None:
        self.source = source
        self.rules = rules
        self.rates = streams.Rates()
        self.survey = Overview(source, self.rates)
        # Streams with producers, as they were last looked at: without any, nothing is said of idempotent writes.
        self.producers: set[bytes] = set()
        # As an overview has found: without a gateway nothing is said of one. None: the user may not know, so that the
        # server need not refuse it again and again.
        self.has_mqtt: bool | None = False
        self.show = Templates(
            has_producers=lambda: bool(self.producers),
            has_mqtt=lambda: bool(self.has_mqtt),
            place=source.place,
            allow_writes=source.allow_writes,
            needs_token=rules.token is not None,
        )
        self.mqtt = MqttPages(source, self.show)

    def overview(self, request: Request) -> Response:
        """Show the server: its largest streams, and the groups that are furthest behind."""
        look = self._look()
        if self.has_mqtt is not None:
            self.has_mqtt = mqtt_sessions.are_there(self.source)
        columns = {**tables.STREAMS, "lag": lambda stream: look.lag(stream.key)}
        order = _order(request, columns, "-length")
        behind = sorted(look.groups, key=tables.by_lag)[: tables.GROUPS_ON_OVERVIEW]
        return self.show.page(
            "overview.html", look=look, order=order, streams=in_order(look.streams, order, columns), behind=behind
        )

    def all_groups(self, request: Request) -> Response:
        """Show the groups of the streams that an overview chooses, those that are furthest behind first."""
        look = self._look()
        order = _order(request, tables.ALL_GROUPS, "-lag")
        found = in_order(sorted(look.groups, key=tables.by_lag), order, tables.ALL_GROUPS)
        return self.show.page(
            "all_groups.html", look=look, order=order, groups=found[: tables.ROWS_MAX], hidden=found[tables.ROWS_MAX :]
        )

    def streams(self, request: Request) -> Response:
        """Show a page of streams."""
        match, cursor = request.query_params.get("match", ""), _cursor(request)
        page = streams.find(self.source, self.rates, bytes_of(match), cursor)
        self._note(page.streams)
        order = _order(request, tables.STREAMS, "name")
        return self.show.page(
            "streams.html", page=page, match=match, first=cursor == "0", order=order,
            streams=in_order(page.streams, order, tables.STREAMS),
        )  # fmt: skip

    def stream(self, request: Request) -> Response:
        """Show a stream and a page of its entries."""
        stream, error = self._stream(request), ""
        asked = {name: request.query_params.get(name, "") for name in ("before", "after", "at", "field", "value")}
        start = b""
        if asked["at"]:
            try:
                start = entry_id_of(asked["at"], streams.now_ms(self.source))
            except ValueError as fault:
                error = str(fault)
        wanted = entries.Wanted(
            _entry_id(asked["before"]),
            _entry_id(asked["after"]),
            start,
            bytes_of(asked["field"]),
            bytes_of(asked["value"]),
        )
        stream, page = entries.read(self.source, self.rates, stream, wanted)
        return self.show.page(
            "stream.html", 400 if error else 200, stream=stream, page=page, asked=asked, wanted=wanted, error=error,
            is_newest=not (wanted.before or wanted.is_upwards),
        )  # fmt: skip

    def tail(self, request: Request) -> Response:
        """Show the entries behind an ID, as rows for an open page."""
        after = _entry_id(request.query_params.get("after", ""))
        stream, found, passed_over = entries.since(self.source, self.rates, self._stream(request), after or b"0-0")
        return self.show.page(
            "tail.html", stream=stream, entries=found, passed_over=passed_over, newest=found[0].id if found else after
        )

    def entry(self, request: Request) -> Response:
        """Show a whole entry."""
        key, entry_id = _name(request, "key"), _entry_id(request.query_params.get("id", ""))
        entry = entries.one_entry(self.source, key, entry_id) if entry_id else None
        if entry is None:
            raise SourceError("there is no such entry (any more)", 404)
        has_producers = self._stream(request).has_producers
        return self.show.page("entry.html", key=key, entry=entry, has_producers_here=has_producers)

    def groups(self, request: Request) -> Response:
        """Show a page of the consumer groups of a stream."""
        stream, place = self._stream(request), _number(request, "from")
        found, order = groups.groups_of(self.source, stream), _order(request, tables.GROUPS, "name")
        found = None if found is None else in_order(found, order, tables.GROUPS)
        shown = None if found is None else found[place : place + GROUPS_PER_PAGE]
        following = place + GROUPS_PER_PAGE if found is not None and place + GROUPS_PER_PAGE < len(found) else 0
        return self.show.page(
            "groups.html", stream=stream, groups=shown, following=following, listed_max=groups.LISTED_MAX,
            order=order,
        )  # fmt: skip

    def group(self, request: Request) -> Response:
        """Show a consumer group: its consumers, and a page of its pending entries."""
        stream, name = self._stream(request), _name(request, "group")
        after, consumer = _entry_id(request.query_params.get("after", "")), _name(request, "consumer")
        idle_s = _number(request, "idle")
        page = groups.group_of(self.source, stream, name, after, consumer, 1_000 * idle_s)
        order = _order(request, tables.CONSUMERS, "name")
        consumers = None if page.consumers is None else in_order(page.consumers, order, tables.CONSUMERS)
        return self.show.page(
            "group.html", stream=stream, name=name, group=page.group, consumers=consumers, pending=page.pending,
            order=order, more=page.more, consumer=consumer, idle_s=idle_s, listed_max=groups.LISTED_MAX,
            done=request.query_params.get("done", ""), number=_number(request, "number"),
        )  # fmt: skip

    def idempotence(self, request: Request) -> Response:
        """Show a page of streams with their windows, producers and duplicates."""
        match, cursor = request.query_params.get("match", ""), _cursor(request)
        has_windows = self._has_windows()
        page = streams.find(self.source, self.rates, bytes_of(match), cursor) if has_windows else None
        found = [] if page is None else page.streams
        self._note(found)
        order = _order(request, tables.PRODUCERS, "name")
        return self.show.page(
            "idempotence.html", page=page, match=match, first=cursor == "0", has_windows=has_windows, order=order,
            streams=in_order((stream for stream in found if stream.has_producers), order, tables.PRODUCERS),
        )  # fmt: skip

    def slow_log(self, request: Request) -> Response:
        """Show the newest requests of the slow log."""
        order = _order(request, tables.SLOW_LOG, "-time")
        found = in_order(slow_log.slowest(self.source), order, tables.SLOW_LOG)
        return self.show.page("slow_log.html", requests=found, order=order)

    def login(self, request: Request) -> Response:
        """Show the form for the token."""
        return self.show.page("login.html", error="")

    async def sign_in(self, request: Request) -> Response:
        """Give the cookie to a browser that knows the token."""
        form = await _form(request)
        if not self.rules.is_token(_first(form, "token").strip()):
            error = "This is not the token; it stands where the page was started."
            return self.show.page("login.html", 403, error=error)
        reply = RedirectResponse("/", 303)
        is_secure = request.url.scheme == "https"
        reply.set_cookie(COOKIE, self.rules.session, httponly=True, samesite="strict", secure=is_secure)
        return reply

    async def acknowledge(self, request: Request) -> Response:
        """Acknowledge the chosen entries."""
        key, group, ids = await self._chosen(request)
        number = await run_in_threadpool(groups.acknowledge, self.source, key, group, ids)
        return _back(key, group, "acknowledged", number)

    async def claim(self, request: Request) -> Response:
        """Claim the chosen entries."""
        key, group, ids = await self._chosen(request)
        form = await _form(request)
        consumer, idle_ms = bytes_of(_first(form, "for").strip()), 1_000 * _whole(_first(form, "min-idle"))
        number = await run_in_threadpool(groups.claim, self.source, key, group, consumer, idle_ms, ids)
        return _back(key, group, "claimed", number)

    def failure(self, request: Request, error: Exception) -> Response:
        """Show an error, and advice."""
        assert isinstance(error, SourceError)
        return self.show.page("error.html", error.status, text=str(error))

    def missing(self, request: Request, error: Exception) -> Response:
        """Show that there is no such page."""
        return self.show.page("error.html", 404, text="there is no such page")

    def _stream(self, request: Request) -> Stream:
        stream = streams.one(self.source, self.rates, _name(request, "key"))
        self._note([stream])
        return stream

    def _look(self) -> Look:
        look = self.survey.look()
        self._note(look.streams)
        return look

    def _note(self, found: list[Stream]) -> None:
        """Note which streams have producers."""
        self.producers.difference_update(stream.key for stream in found)
        if len(self.producers) < streams.RATES_MAX:
            self.producers.update(stream.key for stream in found if stream.has_producers)

    def _has_windows(self) -> bool:
        """Return whether the server knows idempotent writes."""
        (known,) = self.source.ask("COMMAND INFO", "XCFGSET")
        return bool(known)

    async def _chosen(self, request: Request) -> tuple[bytes, bytes, list[bytes]]:
        if not self.source.allow_writes:
            raise SourceError("nothing can be changed here: this page was started without --allow-writes", 403)
        form = await _form(request)
        ids = form.get("id", [])
        if not all(is_entry_id(one) for one in ids):
            raise SourceError("these are no entry IDs", 400)
        return _name(request, "key"), _name(request, "group"), [one.encode() for one in ids]


def _back(key: bytes, group: bytes, done: str, number: int) -> Response:
    return RedirectResponse(address("/group", key=key, group=group, done=done, number=number), 303)


async def _form(request: Request) -> dict[str, list[str]]:
    """Return the fields of a form that was posted. Raises: SourceError, when it is too long."""
    if (known := getattr(request.state, "form", None)) is not None:
        assert isinstance(known, dict)
        return known
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > FORM_BYTES_MAX:
            raise SourceError("this form is too long", 413)
    request.state.form = parse_qs(data.decode("utf-8", "replace"))
    return dict(request.state.form)


def _first(form: dict[str, list[str]], name: str) -> str:
    return form.get(name, [""])[0]


def _name(request: Request, parameter: str) -> bytes:
    return bytes_of(request.query_params.get(parameter, ""))


def _entry_id(text: str) -> bytes:
    if text and not is_entry_id(text):
        raise SourceError(f"{text!r} is no entry ID", 400)
    return text.encode()


def _order(request: Request, columns: Columns, usual: str) -> Order:
    return order_of(request.query_params.get("sort", ""), columns, usual, request.url.path, dict(request.query_params))


def _cursor(request: Request) -> str:
    return str(_whole(request.query_params.get("cursor", "0")))


def _number(request: Request, parameter: str) -> int:
    return _whole(request.query_params.get(parameter, ""))


def _whole(text: str) -> int:
    """Return a number that is not negative and that a server can take; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0

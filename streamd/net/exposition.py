"""The metrics of a server in Prometheus's text format, made in slices; those of redis_exporter have its names."""

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Final

from prometheus_client import Metric, generate_latest
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from streamd.base.histogram import Histogram
from streamd.base.version import REDIS_VERSION, VERSION
from streamd.connected.cold_figures import cold_figures
from streamd.engine.survey import StreamFacts, Survey, Totals, survey
from streamd.net.net_ports import MetricsHost

# Lines that are written between two turns of clients: some hundred microseconds of work.
SAMPLES_PER_SLICE: Final = 100
# A longer name is not shown whole: of 100 streams with ten groups each it would stand there a thousand times.
NAME_CHARACTERS_MAX: Final = 200
NAME_BEGINNING: Final = 150
# Of more replicas only the first ones are shown one by one: each adds some lines.
REPLICAS_MAX: Final = 100
_DIGEST_MARK: Final = "...sha256:"

Sample = tuple[dict[str, str], float]
Family = tuple[str, str, str, list[Sample]]  # name, kind, what it says, samples


class _One(Collector):
    """A registry of one family."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


def _text(metric: Metric) -> str:
    return generate_latest(_One(metric)).decode()


def expose(server: MetricsHost, write: Callable[[str], object]) -> Iterator[int]:
    """Hand the metrics to `write`, piece by piece; yields how many things were looked at or written in a slice."""
    found = Survey()
    yield from survey(server.engine.state.keyspace, found)
    for families in (_server, _cold, _replication, _commands, _databases):
        for family in families(server):
            yield from _write(family, write)
    for family in _streams(found):
        yield from _write(family, write)
    if server.measures is not None:
        measures = server.measures
        for name, histogram, text in (
            ("streamd_turn_seconds", measures.turns, "From the first bytes of a turn to its end, replies handed over."),
            ("streamd_barrier_seconds", measures.barrier, "How long replies of a turn waited for the journal."),
            ("streamd_fsync_seconds", measures.syncs, "How long the disk took for one sync of the journal."),
        ):
            write(_histogram(name, text, histogram))
        yield 3


def _write(family: Family, write: Callable[[str], object]) -> Iterator[int]:
    name, kind, text, samples = family
    for at in range(0, len(samples), SAMPLES_PER_SLICE):
        metric = Metric(name.removesuffix("_total") if kind == "counter" else name, text, kind)
        part = samples[at : at + SAMPLES_PER_SLICE]
        for labels, value in part:
            metric.add_sample(name, labels, value)
        lines = _text(metric)
        if at:  # what the family is stands above its first lines only
            lines = "".join(line for line in lines.splitlines(True) if not line.startswith("#"))
        write(lines)
        yield len(part)


def _histogram(name: str, text: str, histogram: Histogram) -> str:
    buckets, sum_s = histogram.buckets()
    family = HistogramMetricFamily(name, text)
    family.add_metric([], buckets, sum_s)
    return _text(family)


def _server(server: MetricsHost) -> Iterator[Family]:
    state, process = server.engine.state, server.engine.process_facts()
    stats = state.stats
    fields = state.persistence()
    info = {"redis_version": REDIS_VERSION, "streamd_version": VERSION, "os": process.system}
    info["role"] = str(state.replication.fields()["role"])
    yield "redis_instance_info", "gauge", "What runs.", [(info, 1)]

    def gauge(name: str, text: str, value: float) -> Family:
        return f"redis_{name}", "gauge", text, [({}, value)]

    def counter(name: str, text: str, value: float) -> Family:
        return f"redis_{name}_total", "counter", text, [({}, value)]

    yield gauge("up", "1: the server answers.", 1)
    yield gauge("process_id", "The process.", process.pid)
    yield gauge("uptime_in_seconds", "Seconds since the start.", state.up_s())
    yield gauge("start_time_seconds", "When it was started, as Unix time.", state.started_ms // 1000)
    yield gauge("connected_clients", "Connections.", len(state.clients))
    yield gauge("blocked_clients", "Clients that wait in a blocking command.", state.blocked.count)
    yield gauge("config_maxclients", "The option maxclients.", state.config.integer("maxclients"))
    yield counter("connections_received", "Connections ever accepted.", stats.connections)
    yield counter("rejected_connections", "Connections refused.", stats.rejected_connections)
    yield gauge("memory_used_bytes", "Resident memory of the process.", process.memory_bytes)
    yield gauge("memory_used_rss_bytes", "Resident memory of the process.", process.memory_bytes)
    yield gauge("memory_used_peak_bytes", "The most of it so far.", process.memory_peak_bytes)
    yield gauge("memory_max_bytes", "The option maxmemory; 0: no limit.", state.config.integer("maxmemory"))
    yield gauge("total_system_memory_bytes", "Memory of the machine.", process.system_memory_bytes)
    calls = sum(one.calls for one in server.engine.commands.leaves())
    yield counter("commands_processed", "Commands executed.", calls)
    bytes_in, bytes_out = state.traffic_bytes()
    yield counter("net_input_bytes", "Bytes received.", bytes_in)
    yield counter("net_output_bytes", "Bytes sent.", bytes_out)
    yield counter("keyspace_hits", "Look-ups of keys that were there.", sum(db.hits for db in state.keyspace))
    yield counter("keyspace_misses", "Look-ups of keys that were not.", sum(db.misses for db in state.keyspace))
    yield counter("expired_keys", "Keys that expired.", stats.expired_keys)
    yield gauge("pubsub_channels", "Channels with subscribers.", len(state.pubsub.channels))
    yield gauge("pubsub_patterns", "Patterns with subscribers.", len(state.pubsub.patterns))
    yield gauge("slowlog_length", "Entries of the slow log.", len(state.slowlog.entries))
    yield counter("cpu_sys_seconds", "CPU time in the kernel.", process.system_s)
    yield counter("cpu_user_seconds", "CPU time in the process.", process.user_s)
    yield gauge("loading_dump_file", "1: the journal is being loaded.", int(state.is_loading))
    yield gauge("aof_enabled", "1: there is a journal.", int(state.journal is not None))
    for field, name, text in (
        ("aof_rewrite_in_progress", "aof_rewrite_in_progress", "1: the journal is being rewritten."),
        ("aof_rewrite_scheduled", "aof_rewrite_scheduled", "1: a rewrite is due."),
        (
            "aof_last_rewrite_time_sec",
            "aof_last_rewrite_duration_sec",
            "Seconds that the last rewrite took, -1: none yet.",
        ),
        ("aof_current_size", "aof_current_size_bytes", "Bytes of the journal."),
        ("aof_base_size", "aof_base_size_bytes", "Bytes of it after the last rewrite."),
        ("aof_delayed_fsync", "aof_delayed_fsync", "Syncs that took longer than two seconds."),
        ("rdb_changes_since_last_save", "rdb_changes_since_last_save", "Changes since the last rewrite."),
        ("rdb_last_save_time", "rdb_last_save_timestamp_seconds", "When the last rewrite ended, as Unix time."),
    ):
        if isinstance(value := fields.get(field), int):
            yield gauge(name, text, value)
    for name in ("aof_last_write_status", "aof_last_bgrewrite_status"):
        yield gauge(name, "1: it succeeded.", int(fields.get(name, "ok") == "ok"))
    error = str(fields.get("aof_last_bgrewrite_error", ""))
    text = "1: the last rewrite of the journal failed, for a backup maybe: at which key, and why."
    yield "streamd_rewrite_failed", "gauge", text, [({"error": error}, float(bool(error)))]
    errors = [({"err": code}, float(count)) for code, count in sorted(stats.errors.items())]
    yield "redis_errors_total", "counter", "Error replies, by their first word.", errors
    yield "streamd_internal_errors_total", "counter", "Bugs met.", [({}, stats.internal_errors)]


# field of INFO persistence -> (the end of its metric's name, kind, what it says)
_OF_COLD: Final = {
    "cold_files": ("cold_files", "gauge", "Segment files."),
    "cold_bytes": ("cold_bytes", "gauge", "Bytes of the segment files."),
    "cold_block_hits": ("cold_block_hits_total", "counter", "Blocks of segment files that were found in memory."),
    "cold_block_misses": ("cold_block_misses_total", "counter", "Blocks of segment files that were not in memory."),
    "cold_cache_bytes": ("cold_cache_bytes", "gauge", "Bytes of the blocks in memory."),
    "cold_unwritten_bytes": ("cold_unwritten_bytes", "gauge", "Bytes of sealed segments that are in no file yet."),
    "cold_notes_bytes": ("cold_notes_bytes", "gauge", "Bytes of the notes in memory: which values blocks have."),
    "cold_rows_passed": ("cold_rows_passed_total", "counter", "Blocks that searches did not read, thanks to notes."),
    "cold_damaged_blocks": ("cold_damaged_blocks_total", "counter", "Reads of blocks that failed."),
    "cold_waiting_clients": ("cold_waiting_clients", "gauge", "Clients that wait for blocks."),
}


def _cold(server: MetricsHost) -> Iterator[Family]:
    figures = cold_figures(server.engine.state)
    if not figures:
        return
    for field, (name, kind, text) in _OF_COLD.items():
        yield f"streamd_{name}", kind, text, [({}, float(figures[field]))]
    error = str(figures["cold_move_failed"])
    text = "1: entries could not be moved to the disk lately, and why."
    yield "streamd_cold_move_failed", "gauge", text, [({"error": error}, float(bool(error)))]


# field of INFO replication -> (its metric, what it says); those that only a replica or a primary has may be missing
_OF_REPLICATION: Final = {
    "connected_slaves": ("redis_connected_slaves", "Replicas of this server."),
    "min_slaves_good_slaves": (
        "redis_min_slaves_good_slaves",
        "Replicas that have acknowledged something in time for min-replicas-max-lag.",
    ),
    "master_repl_offset": ("redis_master_repl_offset", "The offset of the replication history."),
    "repl_backlog_size": ("redis_replication_backlog_bytes", "The option repl-backlog-size."),
    "repl_backlog_histlen": ("redis_repl_backlog_history_bytes", "Bytes that are kept for replicas that come back."),
    "master_last_io_seconds_ago": (
        "redis_master_last_io_seconds_ago",
        "Seconds since the primary was heard; -1: the link is down.",
    ),
    "master_sync_in_progress": ("redis_master_sync_in_progress", "1: the whole state of the primary is being taken."),
    "slave_repl_offset": ("redis_slave_repl_offset", "The offset up to which this replica has all."),
    "slave_priority": ("redis_slave_priority", "The option replica-priority; 0 without a copy of the data."),
}


def _replication(server: MetricsHost) -> Iterator[Family]:
    state = server.engine.state
    link = state.replication.fields()
    for field, (name, text) in _OF_REPLICATION.items():
        if field in link:
            yield name, "gauge", text, [({}, int(str(link[field])))]
    wanted = state.config.integer("min-replicas-to-write")
    yield "redis_config_min_replicas_to_write", "gauge", "The option min-replicas-to-write.", [({}, wanted)]
    if "master_link_status" in link:
        primary = {"master_host": _label(str(link["master_host"])), "master_port": str(link["master_port"])}
        yield "redis_slave_info", "gauge", "Whose replica this server is.", [(primary, 1)]
        is_up = int(link["master_link_status"] == "up")
        yield "redis_master_link_up", "gauge", "1: the link to the primary is up.", [({}, is_up)]
    skew_ms = state.replication.clock_skew_ms
    if skew_ms is not None:
        text = "By how much the clock of this replica is ahead of its primary's."
        yield "streamd_clock_skew_seconds", "gauge", text, [({}, skew_ms / 1_000)]
    # Of two that have the same address the later one counts: Prometheus takes no labels twice.
    replicas = {(_label(one.host), str(one.port)): one for one in state.replication.replicas()[:REPLICAS_MAX]}
    rows = [
        ({"slave_ip": host, "slave_port": port, "slave_state": one.state}, one)
        for (host, port), one in replicas.items()
    ]
    acknowledged = [(labels, float(one.offset)) for labels, one in rows]
    yield "redis_connected_slave_offset_bytes", "gauge", "The offset that a replica has acknowledged.", acknowledged
    silent = [(labels, float(one.lag_s)) for labels, one in rows]
    yield "redis_connected_slave_lag_seconds", "gauge", "Seconds since a replica has acknowledged anything.", silent


def _label(text: str) -> str:
    return _name(text.encode("utf-8", "surrogateescape"))


def _commands(server: MetricsHost) -> Iterator[Family]:
    used = [one for one in server.engine.commands.leaves() if one.calls or one.rejected or one.failed]
    for name, text, value in (
        ("redis_commands_total", "Calls of a command.", lambda one: one.calls),
        (
            "redis_commands_duration_seconds_total",
            "Time spent in a command.",
            lambda one: one.nanoseconds / 1_000_000_000,
        ),
        ("redis_commands_failed_calls_total", "Calls that ended with an error.", lambda one: one.failed),
        ("redis_commands_rejected_calls_total", "Calls refused before they began.", lambda one: one.rejected),
    ):
        yield name, "counter", text, [({"cmd": one.name}, value(one)) for one in used]


def _databases(server: MetricsHost) -> Iterator[Family]:
    dbs = [db for db in server.engine.state.keyspace if len(db)]
    yield "redis_db_keys", "gauge", "Keys.", [({"db": f"db{db.index}"}, len(db)) for db in dbs]
    expiring = [({"db": f"db{db.index}"}, float(len(db.expires_ms))) for db in dbs]
    yield "redis_db_keys_expiring", "gauge", "Keys that expire.", expiring


# name of a field of Totals -> (name by stream, kind, what it says)
_OF_STREAMS: Final = {
    "entries": ("redis_stream_length", "gauge", "Entries of a stream."),
    "groups": ("redis_stream_groups", "gauge", "Consumer groups of a stream."),
    "bytes": ("streamd_stream_bytes", "gauge", "About how much memory a stream takes."),
    "entries_added": ("streamd_stream_entries_added_total", "counter", "Entries ever added: rate() is its rate."),
    "pending": ("streamd_stream_pending", "gauge", "Entries delivered and not acknowledged, of all groups."),
    "producers": ("streamd_stream_producers", "gauge", "Producers that the window knows."),
    "iids": ("streamd_stream_iids", "gauge", "Idempotent IDs that the window remembers."),
    "duplicates": ("streamd_stream_duplicates_total", "counter", "Duplicates that were recognized."),
}


def _streams(found: Survey) -> Iterator[Family]:
    for field, (name, kind, text) in _OF_STREAMS.items():
        rows = [(_labels(facts), float(getattr(facts.totals, field))) for facts in found.largest]
        yield name, kind, text, rows
    groups = [
        ({**_labels(facts), "group": _name(group.name)}, group) for facts in found.largest for group in facts.groups
    ]
    pending = [(labels, float(group.pending)) for labels, group in groups]
    yield "redis_stream_group_messages_pending", "gauge", "Entries delivered and not acknowledged.", pending
    consumers = [(labels, float(group.consumers)) for labels, group in groups]
    yield "redis_stream_group_consumers", "gauge", "Consumers of a group.", consumers
    lag = [(labels, float(group.lag)) for labels, group in groups if group.lag is not None]
    yield "redis_stream_group_lag", "gauge", "Entries not delivered yet; none where that cannot be known.", lag
    read = [(labels, float(group.entries_read)) for labels, group in groups if group.entries_read is not None]
    yield "redis_stream_group_entries_read", "gauge", "Entries ever delivered.", read
    for prefix, totals, what in (("all", found.totals, "all streams"), ("rest", found.rest, "those without a name")):
        for field in Totals.__slots__:
            name = f"streamd_{prefix}_streams" + ("" if field == "streams" else f"_{field}")
            # Gauges, all of them: what a stream has counted goes with it.
            text = f"Of {what}: {'how many there are' if field == 'streams' else field.replace('_', ' ')}."
            yield name, "gauge", text, [({}, float(getattr(totals, field)))]


def _labels(facts: StreamFacts) -> dict[str, str]:
    return {"db": f"db{facts.db}", "stream": _name(facts.key)}


def _name(word: bytes) -> str:
    """Return a key as a label, another one for each key: two series with the same labels make Prometheus refuse all.

    A key that is text and not long is the label itself. Of others it is the beginning, with bytes that are no text as
    backslash escapes, and a digest of the whole; so is that of a key which looks like such a label.
    """
    text = word.decode("utf-8", "backslashreplace")
    if len(text) <= NAME_CHARACTERS_MAX and _DIGEST_MARK not in text and text.encode() == word:
        return text
    return f"{text[:NAME_BEGINNING]}{_DIGEST_MARK}{sha256(word, usedforsecurity=False).hexdigest()[:32]}"

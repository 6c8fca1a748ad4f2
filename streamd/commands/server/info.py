"""INFO: the server's state in Redis's sections and field names."""

from collections.abc import Callable, Iterable
from typing import Final

from streamd.base.form import form
from streamd.base.version import REDIS_VERSION, VERSION
from streamd.catalog import Context, command
from streamd.connected.cold_figures import cold_figures
from streamd.resp.types import Reply, Verbatim

Fields = Iterable[tuple[str, object]]


def _zeros(names: str) -> Fields:
    """Return the fields of things that are not counted, or cannot happen here."""
    return [(name, 0) for name in names.split()]


def _server(context: Context) -> Fields:
    state = context.state
    process = context.services.process_facts()
    up_s = state.up_s()
    return [
        ("redis_version", REDIS_VERSION),
        ("server_name", "streamd"),
        ("streamd_version", VERSION),
        ("streamd_form", form()),
        ("redis_git_sha1", "00000000"),
        ("redis_git_dirty", 0),
        ("redis_build_id", "0" * 16),
        ("redis_mode", "standalone"),
        ("os", process.system),
        ("arch_bits", process.bits),
        ("multiplexing_api", "asyncio"),
        ("python_version", process.python),
        ("process_id", process.pid),
        ("process_supervised", "no"),
        ("run_id", state.run_id),
        ("tcp_port", state.port),
        ("server_time_usec", state.clock.now_us()),
        ("uptime_in_seconds", up_s),
        ("uptime_in_days", up_s // 86_400),
        ("hz", state.config["hz"]),
        ("configured_hz", state.config["hz"]),
        ("lru_clock", context.now_ms // 1000 & 0xFFFFFF),
        ("executable", process.executable),
        ("config_file", state.config.path),
        ("io_threads_active", 0),
    ]


def _clients(context: Context) -> Fields:
    state = context.state
    return [
        ("connected_clients", len(state.clients)),
        ("cluster_connections", 0),
        ("maxclients", state.config["maxclients"]),
        *_zeros("client_recent_max_input_buffer client_recent_max_output_buffer"),
        ("blocked_clients", state.blocked.count),
        ("tracking_clients", state.tracking.count),
        ("clients_in_timeout_table", state.blocked.with_deadline()),
    ]


def _human(size: int) -> str:
    if size < 1024:
        return f"{size}B"
    for unit in "KMGTP":
        number = size / 1024
        if number < 1024 or unit == "P":
            return f"{number:.2f}{unit}"
        size //= 1024
    raise AssertionError("not reached")


def _memory(context: Context) -> Fields:
    process = context.services.process_facts()
    used, peak = process.memory_bytes, process.memory_peak_bytes
    maxmemory = context.state.config.integer("maxmemory")
    scripts, libraries = context.services.scripts.scripts, context.state.libraries
    eval_bytes, functions_bytes = scripts.memory_bytes, libraries.memory_bytes
    return [
        ("used_memory", used),
        ("used_memory_human", _human(used)),
        ("used_memory_rss", used),
        ("used_memory_rss_human", _human(used)),
        ("used_memory_peak", peak),
        ("used_memory_peak_human", _human(peak)),
        ("used_memory_peak_perc", f"{100 * used / max(peak, 1):.2f}%"),
        *_zeros("used_memory_overhead used_memory_startup"),
        ("used_memory_dataset", used),
        ("used_memory_dataset_perc", "100.00%"),
        ("total_system_memory", process.system_memory_bytes),
        ("total_system_memory_human", _human(process.system_memory_bytes)),
        ("used_memory_lua", eval_bytes),
        ("used_memory_vm_eval", eval_bytes),
        ("used_memory_lua_human", _human(eval_bytes)),
        ("used_memory_scripts_eval", scripts.text_bytes),
        ("number_of_cached_scripts", len(scripts)),
        ("number_of_functions", libraries.functions_count),
        ("number_of_libraries", len(libraries)),
        ("used_memory_vm_functions", functions_bytes),
        ("used_memory_vm_total", eval_bytes + functions_bytes),
        ("used_memory_vm_total_human", _human(eval_bytes + functions_bytes)),
        ("used_memory_functions", libraries.text_bytes),
        ("used_memory_scripts", scripts.text_bytes + libraries.text_bytes),
        ("used_memory_scripts_human", _human(scripts.text_bytes + libraries.text_bytes)),
        ("maxmemory", maxmemory),
        ("maxmemory_human", _human(maxmemory)),
        ("maxmemory_policy", context.state.config["maxmemory-policy"]),
        ("mem_fragmentation_ratio", "1.00"),
        *_zeros("mem_fragmentation_bytes mem_clients_slaves mem_clients_normal mem_aof_buffer"),
        ("mem_allocator", "python"),
        *_zeros("active_defrag_running lazyfree_pending_objects lazyfreed_objects"),
    ]


def _persistence(context: Context) -> Fields:
    state = context.state
    fields: dict[str, object] = {
        "loading": 0,
        "async_loading": 0,
        "rdb_changes_since_last_save": state.dirty,
        "rdb_bgsave_in_progress": 0,
        "rdb_last_save_time": state.started_ms // 1000,
        "rdb_last_bgsave_status": "ok",
        "rdb_last_bgsave_time_sec": -1,
        "rdb_current_bgsave_time_sec": -1,
        "rdb_saves": 0,
        "aof_enabled": int(state.journal is not None),
        "aof_rewrite_in_progress": 0,
        "aof_rewrite_scheduled": 0,
        "aof_last_rewrite_time_sec": -1,
        "aof_current_rewrite_time_sec": -1,
        "aof_last_bgrewrite_status": "ok",
        "aof_last_bgrewrite_error": "",
        "aof_rewrites": 0,
        "aof_last_write_status": "ok",
    }
    fields.update(state.persistence())
    fields.update(cold_figures(state))
    return fields.items()


def _stats(context: Context) -> Fields:
    state, stats = context.state, context.state.stats
    bytes_in, bytes_out = state.traffic_bytes()
    commands, received, sent = stats.per_second
    return [
        ("total_connections_received", stats.connections),
        ("total_commands_processed", sum(one.calls for one in context.services.commands.leaves())),
        ("instantaneous_ops_per_sec", round(commands)),
        ("total_net_input_bytes", bytes_in),
        ("total_net_output_bytes", bytes_out),
        ("instantaneous_input_kbps", f"{received / 1024:.2f}"),
        ("instantaneous_output_kbps", f"{sent / 1024:.2f}"),
        ("rejected_connections", stats.rejected_connections),
        *_zeros("sync_full sync_partial_ok sync_partial_err"),
        ("expired_keys", stats.expired_keys),
        ("expired_subkeys", stats.expired_fields),
        ("expired_stale_perc", "0.00"),
        *_zeros("expired_time_cap_reached_count evicted_keys evicted_clients"),
        ("keyspace_hits", sum(db.hits for db in state.keyspace)),
        ("keyspace_misses", sum(db.misses for db in state.keyspace)),
        ("pubsub_channels", len(state.pubsub.channels)),
        ("pubsub_patterns", len(state.pubsub.patterns)),
        *_zeros("pubsubshard_channels latest_fork_usec total_forks migrate_cached_sockets"),
        ("tracking_total_keys", state.keyspace.followers.kept_keys),
        ("tracking_total_items", state.keyspace.followers.kept_items),
        ("tracking_total_prefixes", len(state.tracking.prefixes)),
        ("unexpected_error_replies", stats.internal_errors),
        ("total_error_replies", sum(stats.errors.values())),
        *_zeros("io_threaded_reads_processed io_threaded_writes_processed"),
    ]


def _replication(context: Context) -> Fields:
    return list(context.state.replication.fields().items())


def _cpu(context: Context) -> Fields:
    process = context.services.process_facts()
    return [
        ("used_cpu_sys", f"{process.system_s:.6f}"),
        ("used_cpu_user", f"{process.user_s:.6f}"),
        ("used_cpu_sys_children", f"{process.children_system_s:.6f}"),
        ("used_cpu_user_children", f"{process.children_user_s:.6f}"),
        ("used_cpu_sys_main_thread", f"{process.system_s:.6f}"),
        ("used_cpu_user_main_thread", f"{process.user_s:.6f}"),
    ]


def _commandstats(context: Context) -> Fields:
    for one in context.services.commands.leaves():
        if one.calls or one.rejected or one.failed:
            usec = one.nanoseconds // 1000
            yield (
                f"cmdstat_{one.name}",
                f"calls={one.calls},usec={usec},usec_per_call={usec / max(one.calls, 1):.2f},"
                f"rejected_calls={one.rejected},failed_calls={one.failed}",
            )


def _latencystats(context: Context) -> Fields:
    for name, times in context.state.latency.commands.items():
        parts = (f"p{percent:g}={times.percentile_us(percent):.3f}" for percent in (50, 99, 99.9))
        yield f"latency_percentiles_usec_{name}", ",".join(parts)


def _errorstats(context: Context) -> Fields:
    return [(f"errorstat_{code}", f"count={count}") for code, count in sorted(context.state.stats.errors.items())]


def _keyspace(context: Context) -> Fields:
    for db in context.state.keyspace:
        if len(db):
            yield f"db{db.index}", f"keys={len(db)},expires={len(db.expires_ms)},avg_ttl={db.mean_left_ms()}"


# name -> (what writes it, whether INFO without arguments shows it), in the order in which they are shown
_SECTIONS: Final[dict[str, tuple[Callable[[Context], Fields], bool]]] = {
    "server": (_server, True),
    "clients": (_clients, True),
    "memory": (_memory, True),
    "persistence": (_persistence, True),
    "stats": (_stats, True),
    "replication": (_replication, True),
    "cpu": (_cpu, True),
    "modules": (lambda context: (), True),
    "commandstats": (_commandstats, False),
    "errorstats": (_errorstats, True),
    "latencystats": (_latencystats, False),
    "cluster": (lambda context: _zeros("cluster_enabled"), True),
    "keyspace": (_keyspace, True),
}
_TITLES: Final = {"cpu": "CPU"}


@command(
    "INFO", arity=-1, flags="loading stale", since="1.0.0", complexity="O(1)", group="server",
    syntax="[section [section ...]]", acl="dangerous",
    tips="nondeterministic_output request_policy:all_shards response_policy:special",
)  # fmt: skip
def info(context: Context, args: list[bytes]) -> Reply:
    """Return the state of the server: sections of lines `field:value`.

    Without arguments, or with `default`, all but commandstats and latencystats; with `all` or `everything` these too.
    """
    asked = {word.decode("utf-8", "surrogateescape").lower() for word in args[1:]} or {"default"}
    everything, default = bool(asked & {"all", "everything"}), "default" in asked
    texts = []
    for name, (write, is_default) in _SECTIONS.items():
        if everything or name in asked or (default and is_default):
            lines = [f"# {_TITLES.get(name, name.capitalize())}"]
            lines += [f"{field}:{value}" for field, value in write(context)]
            texts.append("".join(line + "\r\n" for line in lines))
    return Verbatim("\r\n".join(texts).encode("utf-8", "surrogateescape"))

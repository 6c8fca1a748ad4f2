"""Checks that the options of cold segments go with the others, and with what is installed."""

from streamd.cold.codec import ZSTD, is_available
from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import Config
from streamd.distribution import install_line


def check_stream_memory(config: Config) -> None:
    """Return if `stream-memory` and the compression of its files can be followed. Raises: ConfigError."""
    if config["stream-memory"] and not config["appendonly"]:
        raise ConfigError(
            "stream-memory needs a journal, beside which it keeps entries; set appendonly to yes, or stream-memory to 0"
        )
    if config["stream-segment-compression"] == "zstd" and not is_available(ZSTD):
        raise ConfigError(f"stream-segment-compression zstd needs zstandard: {install_line('connect')}")

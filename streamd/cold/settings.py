"""Whether the options of cold segments can be followed together."""

from streamd.cold.codec import ZSTD, is_available
from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import Config
from streamd.distribution import install_line


def check_stream_memory(config: Config) -> None:
    """Check that streams can be larger than memory, if they are to be. Raises: ConfigError."""
    if config["stream-memory"] and not config["appendonly"]:
        raise ConfigError("stream-memory needs a journal, beside which it keeps entries; start with --appendonly yes")
    if config["stream-segment-compression"] == "zstd" and not is_available(ZSTD):
        raise ConfigError(f"stream-segment-compression zstd needs zstandard: {install_line('connect')}")

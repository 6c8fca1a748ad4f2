"""The option stream-memory: which values and which other options go with it."""

import pytest

from streamd.cold import settings
from streamd.cold.settings import check_stream_memory
from streamd.configuration.layers import apply_layers
from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import Config
from streamd.testing import EmbeddedServer

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("16mb", 16 * MIB), ("1gb", 1024 * MIB), ("16777216", 16 * MIB), ("20m", 20_000_000)]
)
def test_sizes_that_it_takes(text, value):
    config = Config()
    config.set_all([("stream-memory", text)])
    assert config.integer("stream-memory") == value


@pytest.mark.parametrize("text", ["1", "16777215", "15mb", "-1", "much"])
def test_sizes_that_it_does_not_take(text):
    with pytest.raises(Exception, match="argument must be"):
        Config().set_all([("stream-memory", text)])


def test_a_variable_and_a_flag_set_it():
    config = Config()
    apply_layers(config, {}, {"STREAMD_STREAM_MEMORY": "32mb"})
    assert config.integer("stream-memory") == 32 * MIB
    apply_layers(config, {"stream-memory": "64mb"}, {"STREAMD_STREAM_MEMORY": "32mb"})
    assert config.integer("stream-memory") == 64 * MIB
    with pytest.raises(ConfigError, match=r"give a number of bytes \(1kb, 1mb, 1gb\), 0 or 16777216 or more"):
        apply_layers(config, {"stream-memory": "1mb"}, {})


def test_it_needs_a_journal(monkeypatch):
    check_stream_memory(Config(stream_memory=16 * MIB))
    check_stream_memory(Config(appendonly=False))
    with pytest.raises(ConfigError, match="stream-memory needs a journal"):
        check_stream_memory(Config(stream_memory=16 * MIB, appendonly=False))


def test_a_start_without_a_journal_is_refused():
    with pytest.raises(ConfigError, match="stream-memory needs a journal"):
        EmbeddedServer(stream_memory=16 * MIB).start()


def test_neither_option_is_changed_against_the_other(tmp_path):
    redis = pytest.importorskip("redis")
    with EmbeddedServer(appendonly=True, dir=str(tmp_path)) as server:
        client = server.client()
        client.config_set("stream-memory", "16mb")
        assert client.config_get("stream-memory") == {"stream-memory": "16777216"}
        with pytest.raises(redis.ResponseError, match="stream-memory needs a journal"):
            client.config_set("appendonly", "no")
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        with pytest.raises(redis.ResponseError, match="entries of streams are still on the disk alone"):
            client.config_set("stream-memory", "0", "appendonly", "no")
        assert client.config_get("stream-memory") == {"stream-memory": "16777216"}
        client.config_set("stream-memory", "0")
        server.advance(seconds=1)
        client.config_set("appendonly", "no")
        with pytest.raises(redis.ResponseError, match="stream-memory needs a journal"):
            client.config_set("stream-memory", "16mb")
        assert client.config_get("stream-memory") == {"stream-memory": "0"}


def test_compression_needs_its_library(monkeypatch):
    config = Config(stream_segment_compression="zstd")
    monkeypatch.setattr(settings, "is_available", lambda codec: True)
    check_stream_memory(config)
    monkeypatch.setattr(settings, "is_available", lambda codec: False)
    with pytest.raises(ConfigError, match=r"zstd needs zstandard: pip install 'streamd-server\[connect\]'"):
        check_stream_memory(config)

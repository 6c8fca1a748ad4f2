"""What a Redis has instead of streamd's journal is called what it is, with the way to move it."""

from pathlib import Path

import redis

from tests.differential.redis_process import needs_redis, running_redis
from tests.integration.process import ServerProcess, run_cli


@needs_redis
def test_a_backup_from_a_redis_says_how_to_move_its_data(tmp_path: Path):
    with running_redis(tmp_path) as port:
        done = run_cli("backup", "--url", f"redis://127.0.0.1:{port}", str(tmp_path / "copy"))
    assert (done.returncode, done.stdout) == (3, "")
    assert "it is a Redis, and backup copies the journal of a streamd. To move its data" in done.stderr
    assert "CONFIG SET aof-use-rdb-preamble no" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "copy").exists()


@needs_redis
def test_names_with_blanks_and_quotes_go_from_redis_to_streamd_and_back(tmp_path: Path):
    """As `appenddirname "my dir"` of a redis.conf: the manifest has such names in quotes."""
    names = "--appenddirname", "my dir", "--appendfilename", "my \"own\" 'log'.aof"
    theirs = "--appendonly", "yes", "--aof-use-rdb-preamble", "no"
    with running_redis(tmp_path, None, *theirs, *names) as port, redis.Redis(port=port) as client:
        client.set("from", "redis")
        client.waitaof(1, 0, 5000)
    with ServerProcess(tmp_path, "--appendonly", "yes", *names) as server, redis.Redis(port=server.port) as client:
        assert client.get("from") == b"redis"
        client.set("behind", "it")
        client.save()
        client.set("last", "one")
        done = run_cli("backup", "--url", f"redis://127.0.0.1:{server.port}", str(tmp_path / "copy"))
        assert done.returncode == 0, done.stderr
    with ServerProcess(tmp_path, "--appendonly", "yes", *names) as server, redis.Redis(port=server.port) as client:
        assert client.mget("from", "behind", "last") == [b"redis", b"it", b"one"]
    with running_redis(tmp_path, None, *theirs, *names) as port, redis.Redis(port=port) as client:
        assert client.mget("from", "behind", "last") == [b"redis", b"it", b"one"]


def test_a_base_in_rdb_form_is_called_so_and_not_damage(tmp_path: Path):
    journal = tmp_path / "data" / "appendonlydir"
    journal.mkdir(parents=True)
    base = journal / "appendonly.aof.1.base.rdb"
    base.write_bytes(b"REDIS0012\xfa\x09redis-ver\x068.10.2\xff12345678")
    (journal / "appendonly.aof.manifest").write_text(f"file {base.name} seq 1 type b\n", encoding="utf-8")
    data = str(tmp_path / "data")
    told = {
        "serve": run_cli("serve", "--port", "0", "--appendonly", "yes", "--dir", data),
        "check": run_cli("check", data),
        "restore": run_cli("restore", data, str(tmp_path / "copy")),
    }
    for command, done in told.items():
        said = done.stdout + done.stderr
        assert done.returncode not in (0, 1, 2), command
        assert "an RDB file, and not damaged: streamd reads journals of commands" in said, command
        assert "CONFIG SET aof-use-rdb-preamble no, then BGREWRITEAOF" in said
        assert "is damaged" not in said, command
        assert "--skip`" not in said, command

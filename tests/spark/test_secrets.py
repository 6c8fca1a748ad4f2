"""Passwords are shown nowhere: they are said in all ways, and all that is shown is searched for them."""

import contextlib
import io
import logging
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from tests.integration.process import ServerProcess
from tests.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "hunter2-of-the-test"
SAID = [
    ["AUTH", SECRET],
    ["AUTH", "nobody", SECRET],
    ["AUTH", "ann", f"wrong-{SECRET}"],
    ["auth", "ann", SECRET, "more"],
    ["HELLO", "2", "AUTH", "nobody", SECRET],
    ["HELLO", "2", "SETNAME", "x", "AUTH", "ann", SECRET, "nonsense"],
    ["ACL", "SETUSER", "ann", f">{SECRET}", "on", "~*", "+@all"],
    ["ACL", "SETUSER", "bob", f">{SECRET}", f"<{SECRET}", "nonsense"],
    ["acl", "setuser", "bob", f"<{SECRET}"],
    ["ACL", "SETUSER", "bob", f"#{SECRET}"],
    ["CONFIG", "SET", "requirepass", SECRET, "tls-key-file-pass", SECRET],
    ["CONFIG", "SET", "tls-key-file-pass", SECRET, "hz", "nonsense"],
    ["config", "set", "hz", "10", "RequirePass", SECRET],
    ["ACL", "SETUSER", "eve", f"(+get ~a >{SECRET})"],
    ["ACL", "SETUSER", "eve", "(+get", "~a)", f"!{SECRET}"],
    ["ACL", "DRYRUN", "default", "AUTH", "default", SECRET],
    ["acl", "dryrun", "nobody", "hello", "3", "auth", "ann", SECRET],
    ["COMMAND", "GETKEYS", "AUTH", SECRET],
    ["MULTI"],
    ["AUTH", "default", SECRET],
    ["HELLO", "2", "AUTH", "ann", f"{SECRET}-wrong"],
    ["ACL", "SETUSER", "dan", f">{SECRET}"],
    ["CONFIG", "SET", "requirepass", SECRET],
    ["EXEC"],
    ["AUTH", "default", SECRET],
]


def say_all(port: int) -> dict[str, str]:
    """Say the secret in all ways; return what a server then shows to others, by its name."""
    shown: dict[str, str] = {}
    with redis.Redis("127.0.0.1", port, decode_responses=True) as client, client.monitor() as monitor:
        client.config_set("slowlog-log-slower-than", 0)
        for words in SAID:
            with contextlib.suppress(redis.RedisError):
                client.execute_command(*words)
        client.execute_command("ACL", "SAVE")
        client.execute_command("PING", "the-end")
        lines = []
        for seen in monitor.listen():
            lines.append(str(seen))
            if "the-end" in lines[-1]:
                break
        shown["MONITOR"] = "\n".join(lines)
        for request in (
            *("SLOWLOG GET 1000", "CLIENT LIST", "CLIENT INFO", "INFO everything"),
            *("ACL LOG 1000", "ACL LIST", "ACL GETUSER ann", "ACL GETUSER default", "ACL GETUSER dan", "ACL USERS"),
            *("LATENCY LATEST", "LATENCY HISTOGRAM", "MEMORY STATS", "INFO latencystats"),
        ):
            shown[request] = str(client.execute_command(*request.split()))
    return shown


def of_a_bug(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> str:
    """Return what is logged of bugs in handlers that were given the secret."""

    def broken(*args: object) -> None:
        raise ValueError("broken")

    session = Session()
    with monkeypatch.context() as patched, caplog.at_level(logging.DEBUG):
        patched.setattr("streamd.acl.user.User.accepts", broken)
        patched.setattr("streamd.acl.users.Users.changed", broken)
        for words in SAID:
            session.execute(words)
    assert session.state.stats.internal_errors > 3
    assert "Traceback" in caplog.text
    return caplog.text


def plan_of(spark: "SparkSession", port: int) -> str:
    """Return what Spark shows of a query that logs in."""
    given = {"host": "127.0.0.1", "port": str(port), "username": "ann", "password": SECRET, "stream": "s"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        frame = spark.read.format("streamd").options(**given).load()
        frame.explain(True)
        frame.explain("formatted")
    return printed.getvalue() + str(frame._jdf.queryExecution().toString())


def error_of(spark: "SparkSession", port: int, **given: str) -> str:
    """Return all that somebody sees of a query that fails: the error, and the tracebacks of its workers."""
    place = {} if "url" in given else {"host": "127.0.0.1", "port": str(port)}
    try:
        spark.read.format("streamd").options(stream="s", **place, **given).load().collect()
    except Exception:
        return traceback.format_exc()
    raise AssertionError("the query did not fail")


def test_a_password_is_shown_nowhere(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    users = tmp_path / "users.acl"
    users.write_text("user default on nopass ~* &* +@all\n")
    options = ["--aclfile", str(users), "--loglevel", "debug", "--appendfsync", "always"]
    with ServerProcess(tmp_path / "data", *options) as server:
        shown = say_all(server.port)
        with redis.Redis("127.0.0.1", server.port, username="ann", password=SECRET) as client:
            client.xadd("s", {"f": "v"})
            users.write_text(f"user x #{SECRET}\nuser y <{SECRET}\n")
            with pytest.raises(redis.ResponseError) as refused:
                client.execute_command("ACL", "LOAD")
            shown["ACL LOAD"] = str(refused.value)
        shown["a plan of Spark"] = plan_of(spark, server.port)
        shown["the error of a query"] = error_of(spark, server.port, username="ann", password=f"wrong-{SECRET}")
        url = f"redis://ann:wrong-{SECRET}@127.0.0.1:{server.port}"
        shown["the error of a URL that is refused"] = error_of(spark, server.port, url=url)
        shown["the error of a URL that is none"] = error_of(spark, server.port, url=f"redis://ann:{SECRET}@[/x")
        code, out, errors = server.stop()
    assert code == 0
    shown["the log"] = "\n".join([*server.banner, out, errors])
    shown["the data directory"] = "".join(
        file.read_bytes().decode("latin-1") for file in (tmp_path / "data").rglob("*") if file.is_file()
    )
    shown["a traceback"] = of_a_bug(monkeypatch, caplog)

    assert {name for name, text in shown.items() if SECRET in text} == set()
    assert "(redacted)" in shown["MONITOR"]
    assert "(redacted)" in shown["SLOWLOG GET 1000"]
    assert "ann" in shown["ACL LIST"]
    assert "auth" in shown["ACL LOG 1000"]
    assert "streamd" in shown["a plan of Spark"].lower()
    assert "let in user ann" in shown["the error of a query"]
    assert "let in the user in url" in shown["the error of a URL that is refused"]
    assert "is not allowed: give redis://" in shown["the error of a URL that is none"]

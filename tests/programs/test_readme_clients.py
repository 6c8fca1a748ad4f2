"""Each line of the README's table of clients is run by its client, and a retry adds no entry."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import redis

ROOT = Path(__file__).resolve().parents[2]
MODULES = Path("build") / "programs" / "node_modules"
NODE = {
    "ioredis": """
        const redis = new (require("ioredis"))({ port: Number(process.argv[1]) });
        (async () => { for (let at = 0; at < 2; at++) console.log(LINE); await redis.quit(); })();
    """,
    "node-redis": """
        const { createClient } = require("redis");
        (async () => {
            const client = await createClient({ url: `redis://127.0.0.1:${process.argv[1]}` }).connect();
            for (let at = 0; at < 2; at++) console.log(LINE);
            await client.close();
        })();
    """,
}
GO = """
package main

import (
    "fmt"
    "os"

    "github.com/gomodule/redigo/redis"
)

func main() {
    conn, err := redis.Dial("tcp", "127.0.0.1:"+os.Args[1])
    for at := 0; err == nil && at < 2; at++ {
        var id string
        id, err = redis.String(LINE)
        fmt.Println(id)
    }
    if err != nil {
        panic(err)
    }
}
"""
GO_MODULES = Path(os.environ.get("GOPATH", "/usr/share/gocode")) / "src" / "github.com"


def lines() -> dict[str, str]:
    """Return the README's line for each client by its name; empty where it has none."""
    table = (ROOT / "README.md").read_text(encoding="utf-8").split("| client |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (?:\w+, )?([\w-]+)(?: [\d.]+)? \| (.*) \|$", table, re.MULTILINE)
    return {name: text.strip("`") if text.startswith("`") else "" for name, text in rows}


def ids(words: list[str | Path], **environment: str) -> list[str]:
    """Return the entry IDs that a program prints."""
    settings = {**os.environ, **environment}
    done = subprocess.run(words, env=settings, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def is_one_entry(port: int, given: list[str]) -> bool:
    """Say whether both attempts got the ID of the only entry, which has the name that the README shows."""
    client = redis.Redis(port=port, decode_responses=True)
    again = client.xadd("orders", {"cents": 4990}, idmp=("svc-7", b"order-1001"))
    return given == [again, again] and client.xrange("orders") == [(again, {"cents": "4990"})]


def test_the_table_has_these_clients():
    assert {name for name, line in lines().items() if line} == {"redis-py", "redigo", *NODE}
    assert lines()["Java"] == ""


def test_redis_py(port: int):
    r = redis.Redis(port=port, decode_responses=True)
    assert is_one_entry(port, [eval(lines()["redis-py"], {"r": r}) for _ in range(2)])


@pytest.mark.parametrize("client", NODE)
def test_clients_for_node(port: int, client: str):
    node = shutil.which("node")
    if node is None or not (MODULES / "redis").is_dir():
        pytest.skip(f"{client} is not installed: make test-programs installs it, where npm is")
    program = NODE[client].replace("LINE", lines()[client])
    assert is_one_entry(port, ids([node, "-e", program, "--", str(port)], NODE_PATH=str(MODULES.absolute())))


def test_redigo(port: int, tmp_path: Path):
    go = shutil.which("go")
    if go is None or not (GO_MODULES / "gomodule" / "redigo").is_dir():
        pytest.skip("redigo is not installed: Debian has it as golang-go and golang-github-gomodule-redigo-dev")
    (tmp_path / "main.go").write_text(GO.replace("LINE", lines()["redigo"]), encoding="utf-8")
    settings = {"GO111MODULE": "off", "GOPATH": str(GO_MODULES.parents[1]), "GOCACHE": str(tmp_path / "cache")}
    assert is_one_entry(port, ids([go, "run", tmp_path / "main.go", str(port)], **settings))

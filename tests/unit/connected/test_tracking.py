"""CLIENT TRACKING: who is told what, where no redis-server is needed to say so."""

import pytest

from tests.session import Error, Session


@pytest.fixture
def reader(engine):
    """A client that speaks RESP3 and tracks."""
    client = engine.connect(protocol=3)
    client.do("CLIENT TRACKING ON")
    return client


def told(client):
    """Return what the client was told since the last call."""
    client.replies()
    pushes, client.pushes = client.pushes, []
    return pushes


def test_the_own_reply_comes_before_the_push(reader):
    reader.do("GET k")
    reader.send(["SET", "k", 1], ["GET", "k"])
    assert reader.received() == b"+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n$1\r\n1\r\n"


@pytest.mark.parametrize("pipeline", [["SET k 1"], ["SET j 1", "SET k 1", "SET i 1"], ["SET k 1"] * 5])
def test_a_run_of_writes_tells_of_the_key_that_is_kept(engine, reader, pipeline):
    reader.do("GET k")
    engine.send(*(line.split() for line in pipeline))
    assert told(reader) == [[b"invalidate", [b"k"]]]


@pytest.mark.parametrize("line", ["XADD s * f v", "ZADD z 1 m", "HSET h f v", "MSET k 1 j 2", "SET k 1"])
def test_a_run_tells_of_what_it_writes_once(engine, reader, line):
    engine.send(*[line.split()] * 4)
    told(reader)
    key = line.split()[1]
    reader.do(f"EXISTS {key}")
    engine.send(*[[*line.split()[:-1], str(number)] for number in range(4)])
    assert told(reader) == [[b"invalidate", [key.encode()]]]


def test_a_key_that_is_watched_and_kept_does_both(engine, reader):
    engine.do("WATCH k")
    reader.do("GET k")
    engine.connect().do("SET k 1")
    engine.do("MULTI")
    assert engine.do("EXEC") is None
    assert told(reader) == [[b"invalidate", [b"k"]]]
    assert engine.state.keyspace.followers.keys == {}


def test_keys_whose_time_passes_unseen_are_told_of(engine, clock, reader):
    engine.send(*(["SET", f"k{number}", 1, "PX", 10] for number in range(100)))
    engine.replies()
    reader.do("GET k50")
    clock.advance(10)
    engine.sweep()
    assert told(reader) == [[b"invalidate", [b"k50"]]]


def test_over_the_limit_the_oldest_keys_are_forgotten(engine, reader):
    engine.do("CONFIG SET tracking-table-max-keys 2")
    for key in ("a", "b", "c"):
        reader.do(f"GET {key}")
    assert told(reader) == [[b"invalidate", [b"a"]]]
    engine.do("CONFIG SET tracking-table-max-keys 1")
    assert told(reader) == [[b"invalidate", [b"b"]]]
    engine.do("CONFIG SET tracking-table-max-keys 0")
    for key in ("a", "b"):
        reader.do(f"GET {key}")
    assert told(reader) == []


def fields(engine: Session) -> dict[str, int]:
    lines = engine.do("INFO").decode().splitlines()
    return {name: int(number) for name, _, number in (line.partition(":") for line in lines) if "tracking_" in name}


def test_info_counts_what_is_kept(engine, reader):
    other = engine.connect(protocol=3)
    other.do("CLIENT TRACKING ON")
    broadcast = engine.connect(protocol=3)
    broadcast.do("CLIENT TRACKING ON BCAST PREFIX a PREFIX b")
    reader.do("MGET a b c")
    other.do("MGET c d")
    assert fields(engine) == {
        "tracking_clients": 3, "tracking_total_keys": 4, "tracking_total_items": 5, "tracking_total_prefixes": 2,
    }  # fmt: skip
    engine.do("SET c 1")
    assert fields(engine)["tracking_total_items"] == 3
    for client in (reader, other, broadcast):
        client.disconnect()
    assert set(fields(engine).values()) == {0}
    assert engine.state.notify_flags == frozenset()


def test_client_list_shows_who_tracks_and_how(engine, reader):
    engine.do("CLIENT TRACKING ON BCAST")
    reader.do(f"CLIENT TRACKING ON REDIRECT {engine.client.id}")
    lines = engine.do("CLIENT LIST").decode().splitlines()
    shown = [dict(part.split("=", 1) for part in line.split(" ")) for line in lines]
    assert [(one["flags"], one["redir"]) for one in shown] == [("tB", "0"), ("t", str(engine.client.id))]


def test_nobody_who_does_not_track_takes_another_way(engine, reader):
    reader.do("GET k")
    assert engine.client.quick is engine.engine.quick
    assert engine.state.keyspace[0].followed is engine.state.keyspace.followers.keys
    assert reader.client.quick == {}
    reader.do("CLIENT TRACKING OFF")
    assert reader.client.quick is engine.engine.quick


def test_a_redirection_to_a_client_that_has_gone_is_told_as_broken(engine, reader):
    target = engine.connect(protocol=3)
    reader.do(f"CLIENT TRACKING ON REDIRECT {target.client.id}")
    reader.do("GET k")
    target.disconnect()
    engine.do("SET k 1")
    assert told(reader) == [[b"tracking-redir-broken", target.client.id]]
    assert b"broken_redirect" in reader.do("CLIENT TRACKINGINFO")[b"flags"]


def test_what_a_script_does_to_kept_keys_is_told(engine, reader):
    reader.do("GET k")
    engine.execute(["EVAL", "for i = 1, 3 do redis.call('SET', KEYS[1], i) end", "1", "k"])
    assert told(reader) == [[b"invalidate", [b"k"]]]


def test_options_that_do_not_go_together_are_refused(engine):
    assert engine.do("CLIENT TRACKING ON OPTIN OPTOUT") == Error(
        "ERR You can't specify both OPTIN mode and OPTOUT mode"
    )
    assert engine.do("CLIENT CACHING YES").text.startswith("ERR CLIENT CACHING can be called only when")


def test_what_is_kept_for_nobody_any_more_goes_with_a_client_that_had_turned_tracking_off(engine, reader):
    reader.do("GET k")
    reader.do("CLIENT TRACKING OFF")
    assert engine.state.keyspace.followers.kept_keys == 1
    reader.disconnect()
    assert engine.state.keyspace.followers.kept_keys == 0
    assert not engine.state.keyspace.followers.keys


@pytest.mark.parametrize("how", ["FLUSHALL", "leave"])
def test_many_kept_keys_are_freed_a_little_at_a_time(engine, reader, how):
    state = engine.state
    followers = state.keyspace.followers
    for start in range(0, 20_000, 1_000):
        reader.execute([b"MGET", *(b"k%d" % number for number in range(start, start + 1_000))])
    engine.do("WATCH k7")
    kept = followers.keys
    assert (followers.kept_keys, len(kept)) == (20_000, 20_000)

    if how == "FLUSHALL":
        engine.do("FLUSHALL")
        assert told(reader) == [[b"invalidate", None]]
    else:
        reader.engine.disconnect(reader.client)

    assert (followers.kept_keys, followers.kept_items, list(followers.keys)) == (0, 0, [b"k7"])
    assert len(kept) == 20_000
    del kept
    looks = 0

    def stop():
        nonlocal looks
        looks += 1
        return False

    state.keyspace.trash.free(stop)
    assert looks > 20
    # And writers ask the new table.
    second = engine.connect(protocol=3)
    second.do("CLIENT TRACKING ON")
    second.do("GET k9")
    engine.do("SET k9 1")
    assert told(second) == [[b"invalidate", [b"k9"]]]


def test_a_write_asks_for_as_many_prefixes_as_its_key_has_beginnings(engine, monkeypatch):
    class Counted(dict):
        looks = 0

        def __contains__(self, prefix):
            Counted.looks += 1
            return super().__contains__(prefix)

        def __iter__(self):
            raise AssertionError("all prefixes are looked at")

    tracking = engine.state.tracking
    monkeypatch.setattr(tracking.prefixes, "values", Counted())
    client = engine.connect(protocol=3)
    prefixes = [b"p%d:" % number for number in range(10, 100)] + [b"x" * length for length in (20, 30)]
    words = [word for prefix in prefixes for word in (b"PREFIX", prefix)]
    assert client.execute([b"CLIENT", b"TRACKING", b"ON", b"BCAST", *words[:-2]]) == "OK"
    Counted.looks = 0

    for key in (b"p42:1", b"q", b"p7", b"", b"x" * 25):
        engine.execute([b"SET", key, b"1"])

    assert Counted.looks <= 10
    assert told(client) == [[b"invalidate", [b"p42:1"]], [b"invalidate", [b"x" * 25]]]


def test_prefixes_are_told_of_keys_that_begin_with_them_against_asking_each(engine):
    """Whatever the lengths of both, also when prefixes have gone again."""
    words = [b"a" * count for count in range(5)] + [b"b" * count for count in (1, 7)] + [b"ab", b"ba", b"aab"]
    clients = {}
    for prefix in words:
        client = clients[prefix] = engine.connect(protocol=3)
        client.execute([b"CLIENT", b"TRACKING", b"ON", b"BCAST", b"PREFIX", prefix])
    for gone in (None, b"aaa", b"", b"b"):
        if gone is not None:
            clients.pop(gone).do("CLIENT TRACKING OFF")
        for key in [*words, b"abab", b"b" * 9]:
            engine.execute([b"SET", key, b"1"])
            engine.engine.tick()
            for prefix, client in clients.items():
                expected = [[b"invalidate", [key]]] if key.startswith(prefix) else []
                assert told(client) == expected, (prefix, key)

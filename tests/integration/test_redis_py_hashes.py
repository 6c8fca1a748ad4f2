"""redis-py's methods for times of a hash's fields."""


def test_fields_get_times_and_lose_them(streamd_server, streamd_client):
    client = streamd_client
    client.hset("session", mapping={"user": "ann", "token": "x", "theme": "dark"})
    assert client.hexpire("session", 60, "token", "missing") == [1, -2]
    assert client.hexpire("session", 30, "token", gt=True) == [0]
    assert client.httl("session", "token", "user") == [60, -1]
    assert client.hsetex("session", mapping={"csrf": "y"}, px=500) == 1
    assert client.hgetex("session", "csrf", ex=90) == ["y"]
    assert client.hpersist("session", "csrf") == [1]
    assert client.hgetdel("session", "csrf") == ["y"]
    streamd_server.advance(seconds=60)
    assert client.hgetall("session") == {"user": "ann", "theme": "dark"}

"""A real mosquitto and these files: the same clients are let in, the same topics are published and received."""

import random
import subprocess

import pytest

from streamd.clients.mqtt.access import FileFault, read_passwords, read_rights
from tests.mqtt.access import acl_model
from tests.mqtt.access.judge import Client, Mosquitto, mosquitto, needs_mosquitto, password_program
from tests.mqtt.access.test_mqtt_acl import TABLE
from tests.mqtt.access.test_mqtt_passwords import GOOD, quick, slow

pytestmark = needs_mosquitto

ADMIN = "\nuser admin\n" + "".join(f"topic {one}\n" for one in ("#", "$own/#", "$SYSx/#", "$SYS/broker/connection/#"))
CLIENTS = [
    (None, "c1"),
    ("ann", "c1"),
    ("bob", "p/q"),
    ("zed", "c2"),
    ("x/y", "ann"),
    ("ann", "c#"),
    ("a+b", "c1"),
    ("$own", "c1"),
]


def topics_of(chance, count):
    chosen = {acl_model.random_topic(chance) for _ in range(count)}
    return sorted(
        chosen | {"a", "x/secret", "x/1", "w/q", "p/no", "p/c1/q", "$own/a", "$SYSx", "ann/%c1/z", "two words"}
    )


def read(tmp_path, text):
    path = tmp_path / "rules"
    path.write_text(text)
    return read_rights(path)


@pytest.mark.parametrize("seed", [None, 1, 2, 3, 4])
def test_the_same_topics_may_be_published_and_received(tmp_path, seed):
    chance = random.Random(seed or 0)
    text = (TABLE if seed is None else acl_model.text_of(acl_model.random_lines(chance))) + ADMIN
    rights = read(tmp_path, text)
    topics = topics_of(chance, 40)
    with mosquitto(tmp_path, {"acl_file": text}, "allow_anonymous true") as judge:
        assert isinstance(judge, Mosquitto), judge
        with Client(judge.port, "admin", "admin") as admin:
            of_admin = rights.for_client("admin", "admin")
            for username, client_id in CLIENTS:
                ours = rights.for_client(username, client_id)
                with Client(judge.port, client_id, username) as client:
                    for one in ("#", "$own/#", "$SYSx/#", "$SYS/broker/connection/#"):
                        assert client.subscribe(one), "mosquitto accepts each, and decides at delivery"
                    accepted = admin.publish(topics)
                    assert accepted == [of_admin.may_write(topic.encode()) for topic in topics]
                    client.subscribe("end")  # behind all that it was sent
                    sent = [topic for topic, is_sent in zip(topics, accepted, strict=True) if is_sent]
                    assert sorted(client.received) == [one for one in sent if ours.may_read(one.encode())], text
                    expected = [ours.may_write(topic.encode()) for topic in topics]
                    assert dict(zip(topics, client.publish(topics), strict=True)) == dict(
                        zip(topics, expected, strict=True)
                    ), (text, username, client_id)


def test_without_a_file_the_same_topics_may_be_published(tmp_path):
    topics = ["a", "$own", "$SYS/a", "$SYS/broker/connection/b/state", "$share/g/a"]
    with mosquitto(tmp_path, {}, "allow_anonymous true") as judge, Client(judge.port, "c+") as client:
        assert client.publish(topics) == [True, True, False, True, False]


@pytest.mark.parametrize(
    ("text", "is_accepted"),
    [
        ("", True),
        ("topic\n", False),
        ("topic read a b\n", True),
        ("topic a b\n", False),
        (" topic read a\n", True),
        ("\ttopic read a\n", False),
        ("topic\tread\ta\n", False),
        (" # comment\n", False),
        ("user\n", False),
        ("user ann smith\n", True),
        ("topic Read a\n", False),
        ("topic read a/#/b\n", False),
        ("pattern read a/%c+\n", False),
        ("pattern a/b\n", True),
        ("topic a\r\n", True),
        ("\ufefftopic a\n", False),
        ("topic " + "/" * 200 + "\n", True),
        ("topic " + "/" * 201 + "\n", False),
    ],
)
def test_the_same_acl_files_are_refused(tmp_path, text, is_accepted):
    try:
        read(tmp_path, text)
    except FileFault:
        assert not is_accepted
    else:
        assert is_accepted
    with mosquitto(tmp_path, {"acl_file": text}, "allow_anonymous true") as judge:
        assert isinstance(judge, Mosquitto) == is_accepted


def lets_in(judge, username, password):
    try:
        Client(judge.port, "c", username, password).close()
    except ConnectionRefusedError:
        return False
    return True


def test_the_same_passwords_are_right(tmp_path):
    made = tmp_path / "made"
    made.touch()
    for way, name in (("sha512-pbkdf2", "made7"), ("sha512", "made6")):
        subprocess.run([password_program(), "-H", way, "-b", made, name, "geheim ü"], check=True, timeout=60)
    lines = {
        "ann": GOOD,
        "six": quick(b"secret"),
        "one": slow(b"secret", iterations=1),
        "many": slow(b"secret", iterations=20_000),
        "jörg": slow("grüße".encode()),
        "ann smith": slow(b"other"),
    }
    text = "# users\n\n" + made.read_text() + "".join(f" {user} :{line} \n" for user, line in lines.items())
    path = tmp_path / "passwords"
    path.write_text(text)
    passwords = read_passwords(path)
    with mosquitto(tmp_path, {"password_file": text}) as judge:
        assert isinstance(judge, Mosquitto), judge
        right = set()
        for user in ("made7", "made6", *lines, "zed", " ann", "Ann"):
            for password in ("secret", "other", "geheim ü", "grüße", "Secret"):
                expected = passwords.is_right(user, password.encode())
                assert lets_in(judge, user, password) == expected, (user, password)
                right |= {user} if expected else set()
        assert right == {"made7", "made6", *lines}
        assert not lets_in(judge, "ann", None)
        assert not lets_in(judge, None, None)

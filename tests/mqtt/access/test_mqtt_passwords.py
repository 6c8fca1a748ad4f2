"""Password files: what is read, what is refused, and checks beside the event loop."""

import asyncio
import base64
import hashlib
import threading
import time

import pytest

from streamd.clients.mqtt.access import FileFault, PasswordChecks, Passwords, TooManyWaiting, read_passwords
from streamd.clients.mqtt.access.passwords import ITERATIONS_MAX, Secret

SALT = b"123456789012"
DEADLINE_S = 60


def base(data):
    return base64.b64encode(data).decode()


def slow(password, iterations=101, salt=SALT):
    return f"$7${iterations}${base(salt)}${base(hashlib.pbkdf2_hmac('sha512', password, salt, iterations))}"


def quick(password, salt=SALT):
    return f"$6${base(salt)}${base(hashlib.sha512(password + salt).digest())}"


GOOD = slow(b"secret")


def read(tmp_path, text):
    path = tmp_path / "passwords"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_passwords(path)


@pytest.mark.parametrize(
    "line",
    [
        f"ann:{GOOD}",
        f"  ann :{GOOD}  \r",
        f"ann:{quick(b'secret')}",
        f"ann:{slow(b'secret', iterations=1)}",
        f"ann:{slow(b'secret', salt=b'x' * 64)}",
        f"# users\n\n  # more\nbob:{slow(b'other')}\nann:{GOOD}\n",
    ],
)
def test_a_user_has_one_password(tmp_path, line):
    passwords = read(tmp_path, line)
    answers = [passwords.is_right("ann", one) for one in (b"secret", b"Secret", b"", b"other", b"x" * 70_000)]
    assert answers == [True, False, False, False, False]
    assert not passwords.is_right("zed", b"secret")
    assert not passwords.is_right("", b"secret")


def test_passwords_are_bytes_of_any_kind(tmp_path):
    passwords = read(tmp_path, f"jörg:{slow(bytes(range(256)))}\n".encode())
    assert passwords.is_right("jörg", bytes(range(256)))


def test_an_empty_file_has_no_users(tmp_path):
    passwords = read(tmp_path, "")
    assert len(passwords) == 0
    assert not passwords.is_right("ann", b"secret")


@pytest.mark.parametrize(
    ("text", "number", "words"),
    [
        ("ann", 1, ["'ann' has no colon", "user:hash"]),
        (f":{GOOD}", 1, ["no user before the colon"]),
        (f"ann:{GOOD}\n\nann:{GOOD}", 3, ["user 'ann' is in line 1 already", "remove one"]),
        (f"ann:{GOOD}\n ann :{GOOD}", 2, ["is in line 1 already"]),
        ("ann:secret", 1, ["user 'ann'", "mosquitto_passwd -U"]),
        ("ann:", 1, ["not hashed"]),
        ("ann:$8$1$AA==$AA==", 1, ["not hashed with $6$ or $7$"]),
        ("ann:$7$101$AA==", 1, ["$7$iterations$salt$hash"]),
        (f"ann:{GOOD}$x", 1, ["$7$iterations$salt$hash"]),
        (f"ann:{GOOD}:x", 1, ["hash is not base64"]),
        (f"ann:{quick(b'secret')}$x", 1, ["$6$salt$hash"]),
        (f"bob:{GOOD}\nann:{GOOD.replace('101', '0')}", 2, ["user 'ann'", "'0' is no number of iterations"]),
        (f"ann:{GOOD.replace('101', '-1')}", 1, ["no number"]),
        (f"ann:{GOOD.replace('101', '101x')}", 1, ["no number"]),
        (f"ann:{GOOD.replace('101', '٣')}", 1, ["no number"]),
        (f"ann:{GOOD.replace('101', '9' * 5_000)}", 1, ["no number"]),
        (f"ann:{GOOD.replace('101', str(ITERATIONS_MAX + 1))}", 1, ["user 'ann'", "1,000,001 iterations", "fewer"]),
        (f"ann:{GOOD.replace(base(SALT), '!!!!')}", 1, ["salt is not base64"]),
        (f"ann:{GOOD.replace(base(SALT), '')}", 1, ["salt has 0 bytes"]),
        (f"ann:{GOOD[:-4]}", 1, ["hash", "bytes, not 64"]),
        (f"ann:{GOOD[:-5]}", 1, ["hash is not base64"]),
        (b"ann\xff:x", 1, ["byte 4 is not UTF-8"]),
        (b"ann\0:x", 1, ["NUL"]),
    ],
)
def test_a_damaged_line_is_named_in_one_line(tmp_path, text, number, words):
    with pytest.raises(FileFault) as raised:
        read(tmp_path, text)
    line = str(raised.value)
    assert line.startswith(f"{tmp_path / 'passwords'}, line {number}: ")
    assert [word for word in words if word not in line] == []
    assert len(line.splitlines()) == 1
    assert len(line) < 400
    assert GOOD not in line, "a hash belongs into no log"


def test_the_most_iterations_are_accepted(tmp_path):
    assert len(read(tmp_path, f"ann:{GOOD.replace('101', str(ITERATIONS_MAX))}")) == 1


def test_an_unknown_user_costs_as_many_iterations_as_a_known_one(tmp_path, monkeypatch):
    passwords = read(tmp_path, f"ann:{slow(b'secret', 7)}\nbob:{slow(b'secret', 9)}\n")
    asked = []
    is_of = Secret.is_of
    monkeypatch.setattr(Secret, "is_of", lambda self, password: asked.append(self.iterations) or is_of(self, password))
    names = [f"user{number}" for number in range(200)]
    first = [passwords.is_right(name, b"secret") for name in names] and asked.copy()
    assert len(first) == 200
    assert set(first) == {7, 9}, "as some users of the file"
    assert not any(passwords.is_right(name, b"secret") for name in names)
    assert asked[200:] == first, "always the same for one name"


def test_users_that_changed_are_known(tmp_path):
    earlier = read(tmp_path, f"ann:{GOOD}\nbob:{GOOD}\ncid:{GOOD}\n")
    later = read(tmp_path, f"ann:{GOOD}\nbob:{slow(b'new')}\ndan:{GOOD}\n")
    assert later.changed_since(earlier) == {"bob", "cid"}


class Held(Passwords):
    """Passwords whose checks wait until they are let go; it knows in which threads they ran."""

    def __init__(self):
        super().__init__({})
        self.go, self.threads = threading.Event(), []

    def is_right(self, username, password):
        self.threads.append(threading.current_thread())
        assert self.go.wait(DEADLINE_S)
        return username == "ann"


def test_checks_leave_the_event_loop_to_others_and_too_many_are_refused_at_once():
    async def scenario():
        held = Held()
        checks = PasswordChecks(threads=2, waiting_max=5)
        names = ["ann", "bob", "ann", "bob", "ann"]
        tasks = [asyncio.ensure_future(checks.is_right(held, name, b"x")) for name in names]
        await asyncio.sleep(0)  # all have begun, and the loop goes on
        with pytest.raises(TooManyWaiting, match="5 passwords wait"):
            await checks.is_right(held, "ann", b"x")
        tasks[4].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[4]
        tasks[4] = asyncio.ensure_future(checks.is_right(held, "ann", b"x"))
        await asyncio.sleep(0)
        held.go.set()
        answers = await asyncio.wait_for(asyncio.gather(*tasks), DEADLINE_S)
        assert await checks.is_right(held, "ann", b"x"), "there is room again"
        checks.close()
        return answers, held.threads

    answers, threads = asyncio.run(scenario())
    assert answers == [True, False, True, False, True]
    assert len(threads) == 6, "that of the cancelled one never ran"
    assert threading.main_thread() not in threads
    assert len(set(threads)) <= 2


def test_hashing_leaves_the_interpreter_to_others():
    """While a hash is made in a thread, this one runs on: it sees that before the thread has ended."""
    secret = Secret(200_000, SALT, b"")
    thread = threading.Thread(target=secret.is_of, args=(b"secret",))
    thread.start()
    began = time.perf_counter()
    seen = 0
    while thread.is_alive():
        seen += 1
        assert time.perf_counter() - began < DEADLINE_S
    assert seen > 100

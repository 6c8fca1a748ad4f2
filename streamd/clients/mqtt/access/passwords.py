"""The users of a password file in mosquitto's format, and whether a password is theirs.

    ann:$7$101$<salt>$<hash>     PBKDF2 with SHA-512: 101 iterations; salt and hash in base64
    bob:$6$<salt>$<hash>         SHA-512 of the password and the salt

`mosquitto_passwd` makes such lines. Empty lines and lines that begin with # are comments.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamd.clients.mqtt.access.rule_files import BLANKS, FileFault, lines_of, shown

# A check of so many takes half a second of a core: four times what is advised for PBKDF2 with SHA-512, and still not
# so much that some clients with wrong passwords keep the threads from all others.
ITERATIONS_MAX: Final = 1_000_000
SALT_BYTES_MAX: Final = 1_024  # mosquitto's have 12, later ones 64; a longer one is a damaged line
# Hashing leaves the interpreter to others. More threads than the small machines have cores gain nothing.
THREADS: Final = 2
# A second of work at a thousand iterations, a few KB each. A client that comes later is told at once that the gateway
# is busy.
WAITING_MAX: Final = 1_000

_HASH_BYTES: Final = hashlib.sha512().digest_size
_ITERATIONS = re.compile(r"[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True)
class Secret:
    """What a line keeps of a password: its salted hash; iterations: 0 for a `$6$` line, which hashes once."""

    iterations: int
    salt: bytes
    digest: bytes

    def is_of(self, password: bytes) -> bool:
        """Return whether it was made from a password; how long that takes does not depend on the answer."""
        if self.iterations:
            digest = hashlib.pbkdf2_hmac("sha512", password, self.salt, self.iterations)
        else:
            digest = hashlib.sha512(password + self.salt).digest()
        return hmac.compare_digest(digest, self.digest)


class Passwords:
    """The users of one password file; it does not change."""

    def __init__(self, secrets: Mapping[str, Secret]) -> None:
        self._secrets = dict(secrets)
        self._decoys = list(self._secrets.values())
        self._key = os.urandom(16)

    def __len__(self) -> int:
        return len(self._secrets)

    def is_right(self, username: str, password: bytes) -> bool:
        """Return whether a password is a user's. It takes as long as the file's iterations say: not for an event loop.

        An unknown user costs what a user of the file does: the password is hashed as that user's, always the same one
        for one name, so that files with several numbers of iterations do not tell known names from unknown ones either.
        """
        secret = self._secrets.get(username)
        if secret is not None:
            return secret.is_of(password)
        if self._decoys:
            name = hashlib.blake2b(username.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8).digest()
            self._decoys[int.from_bytes(name, "big") % len(self._decoys)].is_of(password)
        return False

    def changed_since(self, earlier: "Passwords") -> frozenset[str]:
        """Return the users of an earlier file that are not in this one, or have another password or salt."""
        return frozenset(name for name, secret in earlier._secrets.items() if self._secrets.get(name) != secret)


class TooManyWaiting(Exception):
    """More passwords wait for their check than are kept: the client is to come again later."""


class PasswordChecks:
    """Checks of passwords in threads of their own, so that the event loop serves other clients meanwhile.

    `close` ends it. The work of a check is lost when its waiter is cancelled.
    """

    def __init__(self, *, threads: int = THREADS, waiting_max: int = WAITING_MAX) -> None:
        """waiting_max: the checks that are running or wait for a thread, at most."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="passwords")
        self._waiting_max = waiting_max
        self._waiting = 0

    async def is_right(self, passwords: Passwords, username: str, password: bytes) -> bool:
        """Return whether a password is a user's. Raises: TooManyWaiting, at once."""
        if self._waiting >= self._waiting_max:
            raise TooManyWaiting(f"{self._waiting:,} passwords wait for their check")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, passwords.is_right, username, password)
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Drop what waits; a check that is running ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def read_passwords(path: Path) -> Passwords:
    """Return the users of a password file.

    Blanks around a name are no part of it. A name stands in one line only: mosquitto takes the last of several, which
    is not what a reader of the file sees first. Raises: FileFault, for the first line that is wrong.
    """
    secrets: dict[str, Secret] = {}
    numbers: dict[str, int] = {}
    for number, line in lines_of(path):
        if not line or line.lstrip(BLANKS).startswith("#"):
            continue
        name, colon, rest = line.partition(":")
        username = name.strip(BLANKS)
        if not colon:
            raise FileFault(path, number, f"{shown(line)} has no colon; write user:hash, as mosquitto_passwd does")
        if not username:
            raise FileFault(path, number, "no user before the colon; write user:hash, as mosquitto_passwd does")
        if username in secrets:
            fault = f"user {shown(username)} is in line {numbers[username]} already; remove one of the two"
            raise FileFault(path, number, fault)
        try:
            secrets[username] = _parse_secret(rest)
        except ValueError as error:
            raise FileFault(path, number, f"user {shown(username)}: {error}")
        numbers[username] = number
    return Passwords(secrets)


def _parse_secret(text: str) -> Secret:
    """Return what stands behind the colon. Raises: ValueError, with what is wrong and what to do."""
    kind, *parts = text.split("$")[1:] if text.startswith("$") else [""]
    if kind not in ("6", "7"):
        raise ValueError(
            "the password is not hashed with $6$ or $7$; run mosquitto_passwd -U on a file of plain passwords, "
            "or mosquitto_passwd for this user"
        )
    if len(parts) != (3 if kind == "7" else 2):
        form = "$7$iterations$salt$hash" if kind == "7" else "$6$salt$hash"
        raise ValueError(f"the hash is not of the form {form}; run mosquitto_passwd for this user again")
    iterations = 0
    if kind == "7":
        if not _ITERATIONS.fullmatch(parts[0]):
            raise ValueError(f"{shown(parts[0])} is no number of iterations; run mosquitto_passwd for this user again")
        iterations = int(parts[0])
        if iterations > ITERATIONS_MAX:
            raise ValueError(
                f"{iterations:,} iterations; more than {ITERATIONS_MAX:,} would keep other clients waiting: "
                "set this password again with fewer"
            )
    salt, digest = _decode("salt", parts[-2]), _decode("hash", parts[-1])
    if not 0 < len(salt) <= SALT_BYTES_MAX:
        raise ValueError(
            f"the salt has {len(salt):,} bytes, not 1 to {SALT_BYTES_MAX:,}; run mosquitto_passwd for this user again"
        )
    if len(digest) != _HASH_BYTES:
        raise ValueError(
            f"the hash has {len(digest):,} bytes, not {_HASH_BYTES}; run mosquitto_passwd for this user again"
        )
    return Secret(iterations, salt, digest)


def _decode(what: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"the {what} is not base64; run mosquitto_passwd for this user again")

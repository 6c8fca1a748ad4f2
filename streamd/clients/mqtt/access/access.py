"""Lets clients in, and gives them their rights, by a password file and an ACL file that can be read again."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from streamd.clients.mqtt.access.acl import ClientRights, Rights, read_rights
from streamd.clients.mqtt.access.certificates import username_of_certificate
from streamd.clients.mqtt.access.passwords import PasswordChecks, read_passwords
from streamd.clients.mqtt.access.rule_files import FileFault

_Rules = TypeVar("_Rules")


class NotAdmitted(Exception):
    """A client may not connect; the text says why, for the log: the client learns only that it is refused."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The outcome of reading both files again.

    faults: a line for each file that is wrong, whose earlier rules stay; changed_users: the users that are gone or have
    another password, whose connections are to be closed.
    """

    faults: tuple[str, ...]
    changed_users: frozenset[str]


class Access:
    """The rules of both files, for all connections of a gateway. `close` ends its threads.

    Without a password file a user name is what a client says it is: such clients are let in only where clients without
    a name are. With one, a client that names a user proves it, everywhere.
    """

    def __init__(self, password_file: Path | None, acl_file: Path | None, checks: PasswordChecks | None = None) -> None:
        """Read both files; None: there is no such file. Raises: FileFault."""
        self._password_file, self._acl_file = password_file, acl_file
        self._passwords = None if password_file is None else read_passwords(password_file)
        self._rights = Rights(None) if acl_file is None else read_rights(acl_file)
        self._checks = checks or PasswordChecks()
        self._given: WeakSet[ClientRights] = WeakSet()

    async def admit(
        self,
        username: str | None,
        password: bytes | None,
        client_id: str,
        *,
        may_be_anonymous: bool,
        certificate: Mapping[str, object] | None = None,
    ) -> ClientRights:
        """Return the rights of a client that connects; they follow each `reload`.

        username, password: as in CONNECT. client_id: as in CONNECT, or as the gateway gave it. may_be_anonymous:
        whether the listener lets clients in that prove no name. certificate: what `getpeercert()` says, where a
        listener takes names from certificates: its CN is the user name then, whatever CONNECT says.
        Raises: NotAdmitted; TooManyWaiting, when the client is to come again later.
        """
        if certificate is not None:
            username = username_of_certificate(certificate)
            if username is None:
                raise NotAdmitted("the certificate's subject has no CN that can be a user's name")
        elif username and self._passwords is not None:
            if not await self._is_right(username, password):
                raise NotAdmitted(f"user {username!r}: unknown, or another password")
        elif not may_be_anonymous:
            raise NotAdmitted("no name and password that can be checked")
        rights = self._rights.for_client(username, client_id)
        self._given.add(rights)
        return rights

    async def reload(self) -> Reloaded:
        """Read both files again and go by them; a file that is wrong changes nothing.

        Files are read in a thread. Clients that are connected get the new rules; see `Reloaded` for their passwords.
        """
        passwords, fault_of_passwords = await asyncio.to_thread(_try, read_passwords, self._password_file)
        rights, fault_of_rights = await asyncio.to_thread(_try, read_rights, self._acl_file)
        changed: frozenset[str] = frozenset()
        if passwords is not None and self._passwords is not None:
            changed = passwords.changed_since(self._passwords)
            self._passwords = passwords
        if rights is not None:
            self._rights = rights
            for given in self._given:
                given.renew(rights)
        return Reloaded(tuple(filter(None, (fault_of_passwords, fault_of_rights))), changed)

    def close(self) -> None:
        """Drop the checks that wait; a check that is running ends by itself."""
        self._checks.close()

    async def _is_right(self, username: str, password: bytes | None) -> bool:
        if not password:  # mosquitto knows no empty ones either
            return False
        while (passwords := self._passwords) is not None:
            is_right = await self._checks.is_right(passwords, username, password)
            if passwords is self._passwords:  # otherwise they were read again meanwhile
                return is_right
        raise AssertionError("a password file does not go away")


def _try(read: Callable[[Path], _Rules], path: Path | None) -> tuple[_Rules | None, str | None]:
    """Return what was read, or what is wrong with the file; neither where there is no file."""
    try:
        return (None if path is None else read(path)), None
    except FileFault as fault:
        return None, f"{fault}; the earlier rules stay"

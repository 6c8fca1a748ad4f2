"""Users and their clients: who is whom, and what becomes of clients when rules change."""

import os
from collections.abc import Callable, Iterable, Sequence
from random import SystemRandom

from streamd.acl.selector import channel_in
from streamd.acl.user import User
from streamd.acl.users import UnreadableUserFileError, UserFileError, Users
from streamd.base.errors import CommandError, WrongPassword
from streamd.base.log import log
from streamd.base.small_files import read_file, replace_file
from streamd.catalog import CommandTable, Context, QuickTable
from streamd.catalog.guard import Guard
from streamd.catalog.refusing import note_refusal
from streamd.session.client import Client
from streamd.session.state import State

_NO_FILE = (
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER "
    "command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store "
    "users in the Redis configuration."
)


class Access:
    """Logs clients in, changes users, and has the clients of a changed user follow at once.

    quick: what clients may run without a further look whose user may do everything; they have no guard.
    The others' guards are made anew when rules change, and are one for all clients of a user.
    """

    def __init__(
        self, state: State, commands: CommandTable, quick: QuickTable, disconnect: Callable[[Client], None]
    ) -> None:
        self._state = state
        self._users: Users = state.users
        self._commands = commands
        self._all_quick = quick
        self.quick: QuickTable = {}
        self._disconnect = disconnect
        self._guards: dict[User, Guard] = {}
        self._is_restricted = False
        state.config.on_change("requirepass", self._set_default_password)
        state.config.on_change("acl-pubsub-default", self._set_channels)

    def start(self) -> None:
        """Take the users of the configuration, or those of its file. Raises: UserFileError."""
        config, users = self._state.config, self._users
        self._set_channels()
        path = config.text("aclfile")
        definitions = config.users + config.flag_users
        if path and definitions:
            raise UserFileError("users are given both in the configuration and in an aclfile: give them in one of both")
        if config.text("requirepass"):
            self._set_default_password()
        users.add_configured(definitions)
        if path:
            self._replace(users.read(_lines(path), path), None)
        for user in users:
            if not user.is_enabled:
                name = user.name.decode("utf-8", "replace")
                log.info("user-disabled", "the user '%s' is disabled: its rules have no 'on'", name)
            self._changed(user)

    def _set_channels(self) -> None:
        self._users.all_channels = self._state.config.text("acl-pubsub-default") == "allchannels"

    def _set_default_password(self) -> None:
        self._users.set_default_password(self._state.config.text("requirepass").encode("utf-8", "surrogateescape"))
        self._changed(self._users.default)

    # -- clients ------------------------------------------------------------------------------------------------------

    def begin(self, client: Context) -> None:
        """Let a client be who new clients are."""
        client.authenticated = self._users.default.is_open
        self._become(client, self._users.default)

    def log_in(self, context: Context, word: bytes, name: bytes, password: bytes) -> None:
        """Let a client be a user from here on; `word` is the command that says so. Raises: WrongPassword."""
        user = self._users.get(name)
        # (Without a user the password is hashed as well: whether there is one is not told by the time that it takes.)
        if not (user or User(name, self._users.vocabulary)).accepts(password) or user is None:
            place = "toplevel" if context.transaction is None and not context.in_unit else "multi"
            note_refusal(self._state, context, "auth", word, name, place)
            raise WrongPassword()
        context.authenticated = True
        self._become(context, user)

    def _become(self, client: Context, user: User) -> None:
        client.user = user
        client.guard = self._guards.get(user)
        client.update_quick()

    def fill(self, is_restricted: bool) -> None:
        """Have all requests looked at one by one, or no more. (In place: the tables are in the clients' hands.)"""
        self._is_restricted = is_restricted
        if is_restricted:
            self.quick.clear()
        elif not self.quick:
            self.quick.update(self._all_quick)
        for guard in self._guards.values():
            self._fill(guard)

    def _fill(self, guard: Guard) -> None:
        if self._is_restricted:
            guard.quick.clear()
        elif not guard.quick:
            guard.quick.update(guard.all_quick)

    def guard_of(self, user: User) -> Guard:
        """Return the rules of any user."""
        return self._guards.get(user) or self._new_guard(user)

    def _new_guard(self, user: User) -> Guard:
        return Guard(user, self._users.vocabulary, self._commands, self._all_quick)

    def _changed(self, user: User) -> None:
        """Have the clients of a user follow its rules."""
        self._guards.pop(user, None)
        if not user.is_unrestricted:
            guard = self._guards[user] = self._new_guard(user)
            self._fill(guard)
        for client in self._state.clients.values():
            if client.user is user:
                assert isinstance(client, Context)
                # Who has not said a password need not say one any more, where `default` needs none now.
                client.authenticated = client.authenticated or (user is self._users.default and user.is_open)
                self._become(client, user)

    # -- users --------------------------------------------------------------------------------------------------------

    def set_user(self, context: Context, name: bytes, rules: Sequence[bytes]) -> None:
        """Change a user by rules, or add one. Raises: CommandError, and then nothing is changed."""
        made = self._users.changed(name, rules)
        self._end_revoked_subscriptions(self._users.get(name), made, context)
        self._changed(self._users.put(made))

    def remove_user(self, context: Context, name: bytes) -> bool:
        """Remove a user and close its clients; return whether there was one."""
        user = self._users.remove(name)
        if user is not None:
            self._close_clients({user}, context)
        return user is not None

    def _close_clients(self, users: Iterable[User], context: Context | None) -> None:
        for user in users:
            self._guards.pop(user, None)
        for client in [one for one in self._state.clients.values() if one.user in users]:
            assert isinstance(client, Context)
            client.authenticated = False  # whatever comes, it is nobody
            self._become(client, self._users.default)
            self._close(client, context)

    def _close(self, client: Client, context: Context | None) -> None:
        """Close a client, whose own words may be the reason: then behind the reply."""
        if client is context:
            client.close_soon = True
        elif not client.close_soon:
            self._disconnect(client)
            client.kill()

    def _end_revoked_subscriptions(self, old: User | None, new: User, context: Context | None) -> None:
        """Close the clients of a user that are subscribed to what it may not name any more."""
        if old is None or any(selector.all_channels for selector in new.selectors):
            return
        allowed = {channel for selector in new.selectors for channel in selector.channels}
        had_all = any(selector.all_channels for selector in old.selectors)
        if not had_all and allowed.issuperset(name for selector in old.selectors for name in selector.channels):
            return
        for client in list(self._state.clients.values()):
            if client.user is old and not (
                all(channel_in(allowed, pattern, True) for pattern in client.patterns or ())
                and all(channel_in(allowed, channel, False) for channel in client.subscriptions or ())
            ):
                self._close(client, context)

    # -- the file -----------------------------------------------------------------------------------------------------

    def load(self, context: Context) -> None:
        """Take all users from the file. Raises: CommandError, and then nothing is changed."""
        path = self._path()
        try:
            found = self._users.read(_lines(path), path)
        except UserFileError as error:
            kept = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
            raise CommandError(f"ERR {error}" if isinstance(error, UnreadableUserFileError) else f"ERR {error} {kept}")
        self._replace(found, context)

    def _replace(self, found: dict[bytes, User], context: Context | None) -> None:
        """Let these be all users: clients of those that are still there go on."""
        for name, made in found.items():
            self._end_revoked_subscriptions(self._users.get(name), made, context)
        self._close_clients(set(self._users.replace(found)), context)
        for user in self._users:
            self._changed(user)

    def save(self) -> None:
        """Write all users to the file. Raises: CommandError."""
        path = self._path()
        try:
            replace_file(path, b"".join(line + b"\n" for line in self._users.lines()))
        except OSError as error:
            log.warning("users-unsaved", "the users could not be saved: %s", error)
            raise CommandError(
                "ERR There was an error trying to save the ACLs. Please check the server logs for more information"
            )

    def rewrite(self) -> None:
        """Write options and users that were changed into the configuration file. Raises: CommandError.

        Users that a flag gives are left out: it would give them a second time at the next start.
        """
        config = self._state.config
        changed: dict[bytes, bytes | None] = {}
        if not config.text("aclfile"):
            password = config.text("requirepass").encode("utf-8", "surrogateescape")
            changed = self._users.differing(config.users + config.flag_users, password)
        for name, *_ in config.flag_users:
            changed.pop(name, None)
        config.rewrite(changed)

    def _path(self) -> str:
        path = self._state.config.text("aclfile")
        if not path:
            raise CommandError(_NO_FILE)
        return path

    def random_bits(self, bits: int) -> int:
        """Return a number that nobody can guess."""
        return SystemRandom().getrandbits(bits)


def _lines(path: str) -> list[bytes]:
    """Return the lines of a file. Raises: UnreadableUserFileError."""
    try:
        return read_file(path).split(b"\n")
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise UnreadableUserFileError(f"Error loading ACLs, opening file '{path}': {reason}") from error

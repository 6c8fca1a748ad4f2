"""Users and their clients: logging in, and the effect of changed rules on connected clients."""

import os
from collections.abc import Callable, Iterable, Sequence
from random import SystemRandom

from streamd.acl.selector import table_of
from streamd.acl.user import User
from streamd.acl.users import UnreadableUserFileError, UserFileError, Users
from streamd.base.errors import CommandError, WrongPassword
from streamd.base.glob_table import GlobTable
from streamd.base.log import log
from streamd.base.small_files import keep_file, read_file, replace_file
from streamd.catalog import CommandTable, Context, QuickTable
from streamd.catalog.guard import Guard, fill_quick
from streamd.catalog.refusing import note_refusal
from streamd.connected.client import Client
from streamd.connected.state import State
from streamd.journal.mending import stamp

_NO_FILE = (
    "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER "
    "command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store "
    "users in the Redis configuration."
)


class Access:
    """Logs clients in, changes users, and has the clients of a changed user follow at once.

    quick: the commands that clients of an unrestricted user may run without further checks; these clients have no
    guard. All clients of a restricted user share one guard, which is replaced when the user's rules change.
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
        self._slow: list[bytes] | None = []
        self._known: bytes | None = None  # what this process read from the users' file last, or wrote there
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
            self._replace(users.read(self._read(path), path), None)
        for user in users:
            if not user.is_enabled:
                name = user.name.decode("utf-8", "replace")
                log.info("user-disabled", "the user '%s' is disabled: its rules have no 'on'", name)
        self._report_lacking()
        self._changed(users)

    def _set_channels(self) -> None:
        self._users.all_channels = self._state.config.text("acl-pubsub-default") == "allchannels"

    def _set_default_password(self) -> None:
        self._users.set_default_password(self._state.config.text("requirepass").encode("utf-8", "surrogateescape"))
        self._changed((self._users.default,))

    # -- clients ------------------------------------------------------------------------------------------------------

    def begin(self, client: Context) -> None:
        """Log a new client in as the default user."""
        client.has_logged_in = client.authenticated = self._users.default.is_open
        self._become(client, self._users.default)

    def log_in(self, context: Context, word: bytes, name: bytes, password: bytes) -> None:
        """Let a client be a user from here on; `word` is the command that says so. Raises: WrongPassword."""
        user = self._users.get(name)
        # (Without a user the password is hashed as well: whether there is one is not told by the time that it takes.)
        if not (user or User(name, self._users.vocabulary)).accepts(password) or user is None:
            place = "toplevel" if context.transaction is None and not context.in_unit else "multi"
            note_refusal(self._state, context, "auth", word, name, place)
            raise WrongPassword()
        context.has_logged_in = context.authenticated = True
        self._become(context, user)

    def _become(self, client: Context, user: User) -> None:
        client.user = user
        client.guard = self._guards.get(user)
        client.update_quick()

    def fill(self, flags: frozenset[str] | None) -> None:
        """Have requests of commands with one of these flags looked at one by one, None: all requests.

        (In place: the tables are in the clients' hands.)
        """
        every = self._all_quick
        self._slow = None if flags is None else [word for word, one in every.items() if one.flags & flags]
        fill_quick(self.quick, every, self._slow)
        for guard in self._guards.values():
            guard.fill(self._slow)

    def guard_of(self, user: User) -> Guard:
        """Return the rules of any user."""
        return self._guards.get(user) or self._new_guard(user)

    def _new_guard(self, user: User) -> Guard:
        return Guard(user, self._users.vocabulary, self._commands, self._all_quick, self._slow)

    def _changed(self, users: Iterable[User]) -> None:
        """Have the clients of some users follow their rules."""
        changed = set(users)
        for user in changed:
            self._guards.pop(user, None)
            if not user.is_unrestricted:
                self._guards[user] = self._new_guard(user)
        default = self._users.default
        for client in self._state.clients.values():
            user = client.user
            if user in changed:
                assert isinstance(client, Context)
                # Who has not said a password need not say one while `default` needs none, and must when it does again.
                client.authenticated = client.has_logged_in or (user is default and user.is_open)
                self._become(client, user)
                if client.waiter is not None:
                    self._state.blocked.try_at_any_change(client.waiter)

    # -- users --------------------------------------------------------------------------------------------------------

    def set_user(self, context: Context, name: bytes, rules: Sequence[bytes]) -> None:
        """Change a user by rules, or add one. Raises: CommandError, and then nothing is changed."""
        made = self._users.changed(name, rules)
        self._end_revoked_subscriptions([made], context)
        self._changed((self._users.put(made),))

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
            client.has_logged_in = client.authenticated = False  # whatever comes, it is nobody
            self._become(client, self._users.default)
            self._close(client, context)

    def _close(self, client: Client, context: Context | None) -> None:
        """Close a client, whose own words may be the reason: then behind the reply."""
        if client is context:
            client.close_soon = True
        elif not client.close_soon:
            self._disconnect(client)
            client.kill()

    def _end_revoked_subscriptions(self, changed: Iterable[User], context: Context | None) -> None:
        """Close the clients that are subscribed to channels which their changed users may no longer name."""
        allowed: dict[User, GlobTable[None]] = {}
        for new in changed:
            old = self._users.get(new.name)
            if old is None or any(selector.all_channels for selector in new.selectors):
                continue
            channels = {channel: None for selector in new.selectors for channel in selector.channels}
            had_all = any(selector.all_channels for selector in old.selectors)
            if had_all or not all(name in channels for selector in old.selectors for name in selector.channels):
                allowed[old] = table_of(channels)
        if not allowed:
            return
        for client in list(self._state.clients.values()):
            if client.patterns or client.subscriptions:
                may = allowed.get(client.user)
                if may is not None and not (
                    all(pattern in may for pattern in client.patterns or ())
                    and all(map(may.matches, client.subscriptions or ()))
                ):
                    self._close(client, context)

    # -- the file -----------------------------------------------------------------------------------------------------

    def load(self, context: Context) -> None:
        """Take all users from the file. Raises: CommandError, and then nothing is changed."""
        path = self._path()
        try:
            found = self._users.read(self._read(path), path)
        except UserFileError as error:
            kept = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
            raise CommandError(f"ERR {error}" if isinstance(error, UnreadableUserFileError) else f"ERR {error} {kept}")
        self._replace(found, context)
        self._report_lacking()

    def _report_lacking(self) -> None:
        """Name the commands in rules that this server does not have, in one line of the log."""
        words = self._users.lacking()
        if words:
            shown = b" ".join(words).decode("utf-8", "replace")
            log.warning(
                "users-lacking",
                "rules of users allow and forbid nothing, as the server lacks what they name: %s",
                shown,
            )

    def _replace(self, found: dict[bytes, User], context: Context | None) -> None:
        """Let these be all users: clients of those that are still there go on."""
        self._end_revoked_subscriptions(found.values(), context)
        gone, changed = self._users.replace(found)
        if gone:
            self._close_clients(set(gone), context)
        self._changed(changed)

    def _read(self, path: str) -> list[bytes]:
        """Return the lines of a file. Raises: UnreadableUserFileError."""
        try:
            self._known = read_file(path)
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise UnreadableUserFileError(f"Error loading ACLs, opening file '{path}': {reason}") from error
        return self._known.split(b"\n")

    def save(self) -> None:
        """Write all users to the file; a file that was edited meanwhile is kept under another name.

        Raises: CommandError.
        """
        path = self._path()
        data = b"".join(line + b"\n" for line in self._users.lines())
        try:
            self._keep_foreign(path, data)
            replace_file(path, data)
        except OSError as error:
            log.warning("users-unsaved", "the users could not be saved: %s", error)
            raise CommandError(
                "ERR There was an error trying to save the ACLs. Please check the server logs for more information"
            )
        self._known = data

    def _keep_foreign(self, path: str, data: bytes) -> None:
        """Keep a file that this process has neither read nor written. Raises: OSError."""
        try:
            if read_file(path) in (self._known, data):
                return
        except FileNotFoundError:
            return
        kept = keep_file(path, f"{path}.old-{stamp(self._state.clock.now_ms())}")
        log.warning("users-kept", "%s was changed since it was read; what was there is in %s", path, kept)

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

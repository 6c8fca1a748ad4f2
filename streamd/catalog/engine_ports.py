"""The services that commands use from the floor above: the engine, its scripts, its users and their rules.

Nothing here is code that runs: the engine has these methods, and imports point downwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from streamd.acl.decision import Decision
    from streamd.acl.user import User
    from streamd.base.process import ProcessFacts
    from streamd.catalog.context import Command, CommandTable, Context, QuickTable
    from streamd.catalog.transfer import Transfer
    from streamd.connected.blocking import Waiter
    from streamd.connected.client import Client
    from streamd.lua.programs import Program
    from streamd.lua.scripts import Scripts
    from streamd.resp.types import Reply


class ScriptServices(Protocol):
    """The services of the script host for commands; see streamd.catalog.script_host."""

    scripts: Scripts

    def run(self, context: Context, program: Program, keys: int, request: list[bytes], read_only: bool) -> Reply:
        """Return the reply of a script or function, or BLOCKED if its client has to wait. Raises: CommandError."""

    def beside(self, context: Context, work: Callable[[], Reply]) -> Reply:
        """Run `work`, which runs scripts; return its reply, or BLOCKED if the client has to wait for it."""

    def running(self) -> tuple[str, list[bytes], int] | None:
        """Return the name, the request and the milliseconds so far of an interrupted function; None without a script.

        Raises: CommandError, if a script was interrupted.
        """

    def kill(self, is_function: bool) -> None:
        """End the script or function that runs, at its next slice. Raises: CommandError."""

    def load_deadline(self) -> Callable[[], bool]:
        """Return a function that tells whether libraries that are loaded from now on take too long."""


class Permissions(Protocol):
    """The rules of one user, prepared for checks; see streamd.catalog.guard.

    quick, names: as there.
    """

    quick: QuickTable
    names: dict[str, set[bytes]]

    def allows(self, command: Command, request: list[bytes]) -> bool:
        """Return whether the user may have a request executed, which has as many words as it must."""

    def decide(self, command: Command, request: list[bytes], every_key: int = 0) -> Decision:
        """Return the decision on a request; every_key: see acl.decision.decide."""

    def end_of_run(self, command: Command, requests: list[list[bytes]], at: int, end: int) -> int:
        """Return before which of requests[at:end] a run must end, none of whose requests has been looked at."""


class AccessServices(Protocol):
    """The services for the users of a server; see streamd.engine.access."""

    def log_in(self, context: Context, word: bytes, name: bytes, password: bytes) -> None:
        """Let a client be a user from here on; `word` is the command that says so. Raises: WrongPassword."""

    def begin(self, client: Context) -> None:
        """Give a client the user that new clients have."""

    def set_user(self, context: Context, name: bytes, rules: Sequence[bytes]) -> None:
        """Change a user by rules, or add one. Raises: CommandError, and then nothing is changed."""

    def remove_user(self, context: Context, name: bytes) -> bool:
        """Remove a user and close its clients; return whether there was one."""

    def load(self, context: Context) -> None:
        """Take all users from the file. Raises: CommandError, and then nothing is changed."""

    def save(self) -> None:
        """Write all users to the file. Raises: CommandError."""

    def rewrite(self) -> None:
        """Write options and users that were changed into the configuration file. Raises: CommandError."""

    def guard_of(self, user: User) -> Permissions:
        """Return the rules of any user."""

    def random_bits(self, bits: int) -> int:
        """Return a number that nobody can guess."""


class Services(Protocol):
    """The services of the engine for commands.

    commands: all of them, with this server's statistics. quick: see `Context.quick`.
    """

    commands: CommandTable
    quick: QuickTable

    @property
    def scripts(self) -> ScriptServices:
        """The script host."""

    @property
    def access(self) -> AccessServices:
        """The users of the server."""

    def execute(self, client: Context, requests: list[list[bytes]]) -> list[Reply]:
        """Execute requests as part of a unit and return their replies, errors included (EXEC)."""

    def unblock(self, waiter: Waiter[Client], reply: Reply) -> None:
        """End a client's wait with `reply`."""

    def end_pause(self) -> None:
        """Let paused clients go on."""

    def disconnect(self, client: Client) -> None:
        """Forget a client and all that it waits for."""

    def shut_down(self, save: bool | None) -> None:
        """Stop the server once the replies of this turn are sent."""

    def process_facts(self) -> ProcessFacts:
        """Return the operating system's figures of the process (INFO)."""

    @property
    def transfer(self) -> Transfer:
        """The way to other servers (MIGRATE)."""

    def sleep(self, seconds: float) -> None:
        """Stand still (DEBUG SLEEP)."""

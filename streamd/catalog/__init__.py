"""What a command is: its declaration, its context, its words, and what COMMAND says of it."""

from streamd.catalog.context import Batch, Command, CommandTable, Context, Handler, QuickTable, Services
from streamd.catalog.declare import COMMANDS, answer, command, container

__all__ = [
    "COMMANDS",
    "Batch",
    "Command",
    "CommandTable",
    "Context",
    "Handler",
    "QuickTable",
    "Services",
    "answer",
    "command",
    "container",
]

"""A command: its declaration, its context, its words, and its description for COMMAND."""

from streamd.catalog.context import Batch, Command, CommandTable, Context, Handler, QuickTable
from streamd.catalog.declare import COMMANDS, EVERY_NODE, answer, command, container
from streamd.catalog.engine_ports import Services

__all__ = [
    "COMMANDS",
    "EVERY_NODE",
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

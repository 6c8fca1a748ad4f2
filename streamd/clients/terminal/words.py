"""The words of the command line that click handles, without importing click."""

from typing import Final

# Each with what the list of commands says of it.
COMMANDS: Final = {
    "tail": "print a stream's entries, and go on with what comes",
    "top": "watch a server: streams, groups, rates, clients",
    "bench": "measure a server, beside redis-server where that is installed",
    "completion": "print what makes a shell complete these words",
}
# The variable by which a shell asks for completions; click's name for a program called streamd.
COMPLETE: Final = "_STREAMD_COMPLETE"

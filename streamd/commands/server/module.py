"""MODULE: tells programs that look for modules that streamd has none."""

from streamd.catalog import Context, command, container
from streamd.resp.types import Reply

container(
    "MODULE",
    since="4.0.0",
    group="server",
    help_lines=[
        "LIST",
        "    Show the modules: there are none.",
    ],
)


@command(
    "MODULE LIST", arity=2, flags="admin noscript", since="4.0.0", complexity="O(1)", group="server",
    tips="nondeterministic_output_order",
)  # fmt: skip
def module_list(context: Context, args: list[bytes]) -> Reply:
    """Return the modules: none."""
    return []

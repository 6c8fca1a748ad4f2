"""MODULE: tells programs that look for modules that streamd has none."""

from streamd.catalog import answer, container

container(
    "MODULE",
    since="4.0.0",
    help_since="5.0.0",
    group="server",
    help_lines=[
        "LIST",
        "    Show the modules: there are none.",
    ],
)

answer(
    "MODULE LIST", [], "Return the modules: none.", arity=2, flags="admin noscript", since="4.0.0", group="server",
    tips="nondeterministic_output_order",
)  # fmt: skip

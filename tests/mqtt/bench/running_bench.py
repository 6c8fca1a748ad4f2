"""The load generator, run as its command line does, in this process."""

import argparse
import json

from streamd.clients.mqtt.bench.cli import add_options


def bench(*words: str) -> int:
    """Return its exit code."""
    parser = argparse.ArgumentParser(prog="bench")
    add_options(parser)
    arguments = parser.parse_args(words)
    return arguments.action(arguments)


def figures(capsys, *words: str) -> tuple[int, dict]:
    """Return its exit code and its figures."""
    code = bench(*words, "--json")
    said = capsys.readouterr()
    assert said.err == "", said.err
    return code, json.loads(said.out)


# Long enough for some messages of each client.
SHORT = ("--seconds", "0.15", "--warm-up", "0.03", "--drain", "0.3")

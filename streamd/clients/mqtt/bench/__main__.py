"""`python -m streamd.clients.mqtt.bench`: the load generator by itself."""

import argparse
import sys

from streamd.clients.mqtt.bench.cli import add_options


def main() -> int:
    """Run it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m streamd.clients.mqtt.bench")
    add_options(parser)
    arguments = parser.parse_args()
    code: int = arguments.action(arguments)
    return code


if __name__ == "__main__":
    sys.exit(main())

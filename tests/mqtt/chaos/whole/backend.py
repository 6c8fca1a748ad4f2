"""A backend with a session that lasts: it notes each reading in a file, and then acknowledges; it may be killed."""

import argparse
import os
import random
import socket
import sys
from pathlib import Path

from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode
from streamd.clients.mqtt.codec.packets import (
    Connack,
    Connect,
    Pingreq,
    Puback,
    Publish,
    Subscribe,
    Subscription,
)
from streamd.clients.mqtt.codec.properties import Property
from tests.mqtt.chaos.records import key_of

CLIENT = "backend"
SILENT_S = 3.0
FILTER = "chaos/#"


def main() -> None:
    """Read until it is killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mqtt.chaos.whole.backend")
    parser.add_argument("--port", type=int, action="append", required=True, help="of a gateway")
    parser.add_argument("--file", type=Path, required=True, help="gets a line for each reading")
    options = parser.parse_args()
    file = os.open(options.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    print("ready", flush=True)
    while True:
        try:
            _stay(random.choice(options.port), file)
        except OSError as error:
            print(error, file=sys.stderr, flush=True)


def _stay(port: int, file: int) -> None:
    """Take readings until the connection is over, or two PINGREQs have no answer. Raises: OSError."""
    with socket.create_connection(("127.0.0.1", port), SILENT_S) as link:
        expiry = {Property.SESSION_EXPIRY_INTERVAL: 3_600, Property.RECEIVE_MAXIMUM: 100}
        link.sendall(encode(Connect(5, CLIENT, False, 60, properties=expiry), 5))
        decoder, silent = Decoder(from_client=False, version=5), 0
        while silent < 3:
            try:
                data = link.recv(1 << 16)
            except TimeoutError:
                silent += 1
                link.sendall(encode(Pingreq(), 5))
                continue
            if not data:
                return
            silent = 0
            keys, answers = [], []
            for packet in decoder.feed(data):
                if isinstance(packet, Connack):
                    if packet.reason:
                        return
                    if not packet.session_present:
                        answers.append(Subscribe(1, (Subscription(FILTER, 1),)))
                elif isinstance(packet, Publish):
                    keys.append(key_of(packet.payload).encode() + b"\n")
                    answers.append(Puback(packet.packet_id))
            if keys:
                os.write(file, b"".join(keys))  # what is written is the system's, and outlives this process
            link.sendall(b"".join(encode(one, 5) for one in answers))


if __name__ == "__main__":
    main()

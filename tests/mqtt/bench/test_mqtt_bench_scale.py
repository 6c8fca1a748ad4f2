"""The table of the gateway's scale, of figures that are given; and the subscribers that it is measured with."""

import asyncio
import socket

import pytest

from bench.mqtt_readers import PAYLOAD_BYTES, Reader, payload
from bench.mqtt_scale import lines_of
from bench.mqtt_scale_figures import Figure
from streamd.clients.mqtt.bench.load import STAMP
from streamd.clients.mqtt.codec import packets as p
from streamd.clients.mqtt.codec.decoder import Decoder
from streamd.clients.mqtt.codec.encoding import encode


def test_a_figure_says_whether_its_target_was_met():
    assert Figure("a", 3.0, "us", most=3).verdict == "met"
    assert Figure("a", 3.1, "us", most=3).verdict == "**missed**"
    assert Figure("a", 0.9, "x", least=0.9).verdict == "met"
    assert Figure("a", 0.8, "x", least=0.9).verdict == "**missed**"
    assert Figure("a", None, "x", most=1.2).verdict == "not available"
    assert Figure("a", 12_345.0).verdict == ""


def test_the_table_has_a_line_for_each_figure_of_each_form():
    figures = [Figure("CPU", 7.25, "us", most=4, note="busy"), Figure("rate", 1_234.5, "/s")]
    lines = lines_of({"row": {"streamd": figures, "compiled": figures[:1]}})
    assert lines[2:] == [
        "| row | CPU | pure | 7.25 us | <= 4 us | **missed** | busy |",
        "| row | rate | pure | 1,234 /s |  |  |  |",
        "| row | CPU | compiled | 7.25 us | <= 4 us | **missed** | busy |",
    ]


class Transport:
    """The side of a socket that a reader writes to."""

    def __init__(self, sock):
        self.sock, self.written = sock, b""

    def get_extra_info(self, name):
        return self.sock

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return False

    def write(self, data):
        self.written += data


@pytest.mark.parametrize("piece_bytes", [1, 7, 100, 10_000])
@pytest.mark.parametrize("sequence_at", [0, 8])
def test_a_reader_counts_and_acknowledges_what_it_gets(piece_bytes, sequence_at):
    async def main():
        mine, other = socket.socketpair()
        reader, transport = Reader("reader", b"topic", sequence_at), Transport(mine)
        reader._ready = asyncio.get_running_loop().create_future()
        reader.connection_made(transport)
        sequences = [0, 1, 2, 2, 5, 6]
        made = [
            STAMP.pack(1, 0, one, 0.0).ljust(PAYLOAD_BYTES, b".") if sequence_at else payload(one) for one in sequences
        ]
        sent = [p.Connack(False, 0), p.Suback(1, (1,))]
        sent += [p.Publish(b"topic", one, 1, packet_id=at + 300) for at, one in enumerate(made)]
        data = b"".join(encode(one, 4) for one in sent)
        for at in range(0, len(data), piece_bytes):
            reader.data_received(data[at : at + piece_bytes])
        assert reader._ready.done()
        assert (reader.got, reader.again, reader.lost, reader.next) == (5, 1, 2, 7)
        answers = Decoder().feed(transport.written + other.recv(1_000))
        assert [type(one) for one in answers] == [p.Connect, p.Subscribe, *[p.Puback] * 6]
        assert [one.packet_id for one in answers[2:]] == [300 + at for at in range(6)]
        mine.close()
        other.close()

    asyncio.run(main())

"""mosquitto_pub and mosquitto_sub with their defaults, in each version: QoS, retained, a will, a session that lasts."""

import shutil
import signal
import subprocess

import pytest

from tests.mqtt.clients.process import WAIT_S

pytestmark = pytest.mark.skipif(
    not (shutil.which("mosquitto_pub") and shutil.which("mosquitto_sub")), reason="mosquitto-clients is not installed"
)
VERSIONS = pytest.mark.parametrize("version", ["311", "5"])


def words(program, port, version, *options):
    return [program, "-p", str(port), "-V", {"311": "mqttv311", "5": "mqttv5"}[version], *options]


def publish(port, version, *options):
    subprocess.run(words("mosquitto_pub", port, version, *options), check=True, timeout=WAIT_S)


class Reader:
    """A mosquitto_sub that is subscribed."""

    def __init__(self, port, version, *options):
        command = words("mosquitto_sub", port, version, "-d", "-F", "%t %p %q %r", *options)
        self.process = subprocess.Popen(["stdbuf", "-oL", *command], stdout=subprocess.PIPE, text=True)
        while not self.line().startswith("Subscribed"):
            pass

    def line(self):
        line = self.process.stdout.readline()
        assert line, "mosquitto_sub has ended"
        return line.strip()

    def receive(self):
        while True:
            found = self.line().split(" ")
            if len(found) == 4 and "/" in found[0]:
                return found

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=WAIT_S)


@VERSIONS
def test_mosquitto_clients(port, version):
    top = f"mosquitto/{version}"
    publish(port, version, "-t", f"{top}/kept", "-m", "kept", "-q", "1", "-r")
    reader = Reader(port, version, "-t", f"{top}/#", "-q", "2")
    assert reader.receive() == [f"{top}/kept", "kept", "1", "1"]
    for qos in "012":
        publish(port, version, "-t", f"{top}/{qos}", "-m", "x", "-q", qos)
        assert reader.receive() == [f"{top}/{qos}", "x", qos, "0"]
    options = ("--will-topic", f"{top}/will", "--will-payload", "gone", "--will-qos", "1")
    device = Reader(port, version, "-t", f"{top}/nothing", *options)
    device.process.kill()
    device.process.communicate()
    assert reader.receive() == [f"{top}/will", "gone", "1", "0"]
    reader.end()


@VERSIONS
def test_mosquitto_sub_comes_back(port, version):
    top = f"mback/{version}"
    options = ["-i", f"mosquitto-{version}", "-c", "-q", "2", "-t", f"{top}/#"]
    if version == "5":
        options += ["-x", "1000"]
    Reader(port, version, *options).end()
    lines = "".join(f"{number}\n" for number in range(30))
    command = words("mosquitto_pub", port, version, "-t", f"{top}/a", "-q", "1", "-l")
    subprocess.run(command, input=lines, text=True, check=True, timeout=WAIT_S)
    command = words("mosquitto_sub", port, version, "-C", "30", "-W", str(WAIT_S), *options)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=2 * WAIT_S)
    assert done.stdout == lines

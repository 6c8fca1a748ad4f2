"""Any file gives options or faults of one line each, and CONFIG REWRITE changes of it just the options that it is told.

Input: the bytes of a configuration file.
"""

import os
import tempfile

from streamd.configuration.file import FromFile, read_file
from streamd.configuration.rewriting import rewritten
from streamd.configuration.server_options import OPTIONS, Config

WORDS = [*(name.encode() for name in OPTIONS), b"yes", b"no", b"1gb", b"100mb", b"0", b"-1", b"18446744073709551616",
         b'"', b"'", b"\\x00", b"#", b"\r\n", b"include", b"rename-command", b"aclfile", b"user"]  # fmt: skip
# What CONFIG REWRITE is told to write: of several kinds, with what needs quotes.
CHANGED = {"port": 7001, "requirepass": 'a "b\\ \n\xff#', "appendfsync": "no", "maxmemory": 3 * 1024**3 + 1}
PATH = os.path.join(tempfile.gettempdir(), f"streamd-fuzz-{os.getpid()}.conf")


def read(data: bytes) -> FromFile:
    """Return what a file of these bytes says."""
    with open(PATH, "wb") as file:
        file.write(data)
    try:
        return read_file(PATH)
    finally:
        os.unlink(PATH)


def check(data: bytes) -> None:
    """Raise AssertionError unless the file is read, rewritten and read again as it should be."""
    if b"include" in data.lower():
        return  # of files of this machine nothing is known
    found = read(data)
    for fault in found.faults:
        assert len(str(fault).splitlines()) == 1, str(fault)
    if b"\0" in data:
        assert not found.values  # it is none, and refused as a whole
        return
    config = Config()
    for name, value in (found.values | CHANGED).items():
        config.values[name] = value
    after = read(rewritten(data, config, CHANGED))
    assert {name: after.values.get(name, OPTIONS[name].default) for name in CHANGED} == CHANGED
    kept = {name: value for name, value in found.values.items() if name not in CHANGED}
    assert {name: value for name, value in after.values.items() if name not in CHANGED} == kept
    twice = rewritten(rewritten(data, config, CHANGED), config, CHANGED)
    assert twice == rewritten(data, config, CHANGED)

"""The server that `streamd mqtt` starts for itself when it is given none."""

import asyncio
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

_START_S: Final = 60.0
_STOP_S: Final = 20.0
_READY: Final = b"Ready to accept connections"
_IN_USE: Final = "in use by another server"
_IN_USE_S: Final = 10.0  # the server of a gateway that was killed needs a moment to end
_PR_SET_PDEATHSIG: Final = 1


class ServerFault(Exception):
    """The server did not start; the text says why."""


class OwnServer:
    """A streamd server as a child process, on a Unix socket in the data directory."""

    def __init__(self, directory: Path, process: asyncio.subprocess.Process, tail: list[bytes]) -> None:
        self._process, self._said = process, tail
        self.url = f"unix://{socket_of(directory)}"
        self._reading = asyncio.get_running_loop().create_task(self._read())

    @property
    def process_id(self) -> int:
        """The process."""
        return self._process.pid

    async def wait(self) -> str:
        """Return the last line of a server that has ended."""
        await self._process.wait()
        await self._reading
        return _last_line(self._said)

    async def stop(self) -> None:
        """End the server, and wait for it."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), _STOP_S)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            self._said.append(line)
            del self._said[:-20]


def socket_of(directory: Path) -> Path:
    """Return the path of the server's socket."""
    return directory.absolute() / "streamd.sock"


async def start_server(directory: Path, appendfsync: str) -> OwnServer:
    """Start a server for a directory, and return it when it answers. Raises: ServerFault."""
    path = socket_of(directory)
    if len(os.fsencode(path)) > 100:
        raise ServerFault(f"--dir {directory}: the path is too long for a socket; give a shorter one")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServerFault(f"--dir {directory}: {error.strerror}")
    deadline_s = asyncio.get_running_loop().time() + _IN_USE_S
    while True:
        try:
            return await _start(directory, path, appendfsync)
        except ServerFault as fault:
            if _IN_USE not in str(fault) or asyncio.get_running_loop().time() > deadline_s:
                raise
            await asyncio.sleep(0.2)


async def _start(directory: Path, path: Path, appendfsync: str) -> OwnServer:
    # Its end comes with that of the gateway, which it is not to miss: Ctrl-C is for the gateway alone.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "streamd", "serve", "--port", "0", "--bind", "127.0.0.1", "--unixsocket", str(path),
        "--unixsocketperm", "700", "--dir", str(directory), "--appendonly", "yes", "--appendfsync", appendfsync,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
        preexec_fn=_end_with_gateway,
    )  # fmt: skip
    said: list[bytes] = []
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_S):
            while line := await process.stdout.readline():
                said.append(line)
                if _READY in line:
                    return OwnServer(directory, process, said)
    except TimeoutError:
        process.kill()
    except BaseException:  # the gateway was told to end
        process.terminate()
        await process.wait()
        raise
    await process.wait()
    raise ServerFault(f"the server for --dir {directory} did not start: {_last_line(said)}")


def _end_with_gateway() -> None:
    """Let the system end this process when the gateway is killed, where it can do that."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _last_line(said: list[bytes]) -> str:
    lines = [one.decode("utf-8", "replace").strip() for one in said if one.strip()]
    return lines[-1] if lines else "it said nothing"

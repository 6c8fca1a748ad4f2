"""CPU time and memory of processes, their children included, as Linux tells them."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

_PROC = Path("/proc")


class ProcessGone(OSError):
    """A process that does not exist, ended meanwhile, or may not be looked at."""


def cpu_s(processes: Iterable[int]) -> float:
    """Return the CPU seconds of these processes and of all their descendants, those that have ended included.

    Raises: ProcessGone.
    """
    return _summed(_cpu_s, processes)


def anonymous_bytes(processes: Iterable[int]) -> int:
    """Return the memory of these processes and their descendants, without files that others map, too.

    Raises: ProcessGone.
    """
    return int(_summed(_anonymous_bytes, processes))


def _summed(tell: Callable[[int], float], processes: Iterable[int]) -> float:
    wanted, total = set(processes), 0.0
    for process in _with_children(wanted):
        try:
            total += tell(process)
        except ProcessGone:  # a child that ended while we looked: its parent has its CPU time, nobody its memory
            if process in wanted:
                raise
    return total


def _with_children(processes: Iterable[int]) -> list[int]:
    wanted = dict.fromkeys(processes)
    if not wanted:
        return []
    if not _PROC.is_dir():
        raise ProcessGone("this system has no /proc, which tells a process's CPU time and memory")
    for process in wanted:
        if not (_PROC / str(process)).is_dir():
            raise ProcessGone(f"process {process} does not exist")
    parents: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                parents.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
            except ProcessGone:  # ended while we looked
                continue
    found = list(wanted)
    for process in found:
        found += [child for child in parents.get(process, ()) if child not in wanted]
    return found


def _cpu_s(process: int) -> float:
    """Return the time of a process's threads to the nanosecond, and that of its ended children to the tick."""
    total_ns = 0
    try:
        for thread in (_PROC / str(process) / "task").iterdir():
            try:
                total_ns += int((thread / "schedstat").read_bytes().split()[0])
            except (FileNotFoundError, ProcessLookupError):  # a thread that ended while we looked
                continue
    except OSError as error:
        raise ProcessGone(f"process {process}: {error.strerror}") from None
    of_children = sum(map(int, _stat(process)[13:15]))
    return total_ns / 1e9 + of_children / os.sysconf("SC_CLK_TCK")


def _stat(process: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat behind the name, which may have blanks: the state is the first."""
    try:
        return (_PROC / str(process) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError as error:
        raise ProcessGone(f"process {process}: {error.strerror}") from None


def _anonymous_bytes(process: int) -> int:
    try:
        for line in (_PROC / str(process) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1]) * 1024
    except OSError as error:
        raise ProcessGone(f"process {process}: its memory cannot be read: {error.strerror}") from None
    raise ProcessGone("this kernel does not tell Pss_Anon")

"""The operating system's figures of the running process."""

import os
import sys
from functools import cache
from typing import NamedTuple

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


class ProcessFacts(NamedTuple):
    """Sizes in bytes, times in seconds; 0 where the system does not tell."""

    pid: int
    executable: str
    system: str
    bits: int
    python: str
    memory_bytes: int
    memory_peak_bytes: int
    system_memory_bytes: int
    user_s: float
    system_s: float
    children_user_s: float
    children_system_s: float


def read_process_facts() -> ProcessFacts:
    """Return the present facts."""
    times = os.times()
    peak = 0
    if resource is not None:
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    resident = resident_bytes() or peak
    return ProcessFacts(
        pid=os.getpid(),
        executable=sys.executable,
        system=_platform()[0],
        bits=64 if sys.maxsize > 2**32 else 32,
        python=_platform()[1],
        memory_bytes=resident,
        memory_peak_bytes=max(peak, resident),
        system_memory_bytes=_system_memory_bytes(),
        user_s=times.user,
        system_s=times.system,
        children_user_s=times.children_user,
        children_system_s=times.children_system,
    )


@cache
def _platform() -> tuple[str, str]:
    """Return the names of the operating system and of this Python."""
    import platform  # nobody asks at a start

    python = f"{platform.python_implementation()} {platform.python_version()}"
    return " ".join((platform.system(), platform.release(), platform.machine())), python


def resident_bytes() -> int:
    """Return the process's resident memory in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _system_memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0

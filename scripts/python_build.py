"""How a Python was built: `python scripts/python_build.py` ends with 0 if with profile-guided optimisation, else 1.

Such a Python takes 0.8 to 0.9 of the CPU of one built without. `scripts/set_up.sh` asks it of each Python at hand.
"""

import platform
import sys
import sysconfig
from typing import Final

# Debian and the systems made from it optimise in a way of their own, which is not among the words of `configure`.
_OPTIMISED_SYSTEMS: Final = {"debian", "ubuntu"}
_PREFIX_OF_SYSTEM: Final = "/usr"


def is_optimised() -> bool:
    """Return whether this Python was built with profile-guided optimisation."""
    if "--enable-optimizations" in str(sysconfig.get_config_var("CONFIG_ARGS")):
        return True
    return sys.base_prefix == _PREFIX_OF_SYSTEM and not _OPTIMISED_SYSTEMS.isdisjoint(_system())


def _system() -> list[str]:
    """Return the name of this system and of those that it was made from; empty where the system does not say it."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return []
    return [release["ID"], *release.get("ID_LIKE", "").split()]


def described() -> str:
    """Return Python's version, whose it is if it is the system's, and how it was built: rates depend on it."""
    words = [platform.python_version()]
    if sys.base_prefix == _PREFIX_OF_SYSTEM and _system():
        words.append(f"of {platform.freedesktop_os_release()['PRETTY_NAME']}")
    words.append("with profile-guided optimisation" if is_optimised() else "without profile-guided optimisation")
    return " ".join(words)


if __name__ == "__main__":
    sys.exit(0 if is_optimised() else 1)

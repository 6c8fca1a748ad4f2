#!/bin/sh
# Makes .venv ready: quick when it is, else hands over to set_up.py with a Python that can do it.
# sh scripts/set_up.sh [server|all]: what is installed, all by default, Spark included; all serves for the server, too.
set -eu

level=${1:-all}
# What an installed .venv was made from: the two files, the place (an editable install points to it) and the scripts.
wanted="$(cat pyproject.toml constraints.txt scripts/set_up.py scripts/set_up.sh | cksum) $(pwd -P)"
if [ -x .venv/bin/python ] && [ -f .venv/.ready ]; then
    case "$(cat .venv/.ready)" in
        "$wanted $level" | "$wanted all") exit 0 ;;
    esac
fi

# First a Python that can make a virtual environment by itself, built with profile-guided optimisation; then any that can;
# else one that may do it with the pip beside it.
fits='import sys; sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, 14)))'
makes="import ensurepip, venv; $fits"
if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
else
    set -- python3 python3.11 python3.12 python3.13 python3.14
    for python in "$@"; do
        set -- "$@" "/usr/bin/$python"
    done
fi
found=""
optimised=""
for python in "$@"; do
    if [ -z "$found" ] && "$python" -c "$fits" >/dev/null 2>&1 && "$python" scripts/python_build.py >/dev/null 2>&1; then
        if "$python" -c "$makes" >/dev/null 2>&1; then
            found=$python
        else
            optimised=$python
        fi
    fi
done
for check in "$makes" "$fits"; do
    for python in "$@"; do
        if [ -z "$found" ] && "$python" -c "$check" >/dev/null 2>&1; then
            found=$python
        fi
    done
done
if [ -z "$found" ]; then
    echo "set-up: no Python 3.11 to 3.14 here (tried: $*);" \
        "install one, or say where it is: make PYTHON=/path/to/python3.12" >&2
    exit 1
fi
if [ -n "$optimised" ] && [ "$optimised" != "$found" ] && ! "$found" scripts/python_build.py && ! [ -x .venv/bin/python ]; then
    echo "set-up: $found is built without profile-guided optimisation; $optimised is built with it, but can make no" \
        "virtual environment (on Debian and Ubuntu the package python3-venv is missing)"
fi
exec "$found" scripts/set_up.py "$wanted" "$level"

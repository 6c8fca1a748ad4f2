"""`make check-deploy`: checks deploy/ with the tools that are installed: systemd-analyze, promtool, buildah."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
# systemd's own measure, 0 to 10: as it was when the unit was written. 1.2 is what a service on the network can reach.
EXPOSURE_MAX = "15"


def main() -> int:
    """Return 0 if every installed tool accepts deploy/."""
    os.chdir(ROOT)
    for tool, check in (("systemd-analyze", check_units), ("promtool", check_rules), ("buildah", check_image)):
        if shutil.which(tool) is None:
            print(f"deploy: {tool} is not installed, what it checks is not checked")
            continue
        check()
    return 0


def check_units() -> None:
    """Check that systemd accepts the units, and that the services are still sandboxed. Raises: SystemExit."""
    with tempfile.TemporaryDirectory() as place:
        units = []
        for unit in (DEPLOY / "systemd").iterdir():
            units.append(Path(place) / unit.name)
            # systemd wants the program to be there; whichever one is.
            units[-1].write_text(unit.read_text().replace("/opt/streamd/bin/streamd", "/bin/true"))
        run("systemd-analyze", "verify", "--man=no", *units)
        for service in (one for one in units if one.suffix == ".service"):
            run("systemd-analyze", "security", "--offline=yes", "--no-pager", f"--threshold={EXPOSURE_MAX}", service)
    print("deploy: the units are as they should be")


def check_rules() -> None:
    """Check that Prometheus accepts its configuration, and that alerts fire as they should. Raises: SystemExit."""
    for name in ("prometheus.yml", "two-servers.yml"):
        run("promtool", "check", "config", DEPLOY / "prometheus" / name)
    run("promtool", "test", "rules", DEPLOY / "prometheus" / "streamd.tests.yml")
    print("deploy: the rules are as they should be")


def check_image() -> None:
    """Build the images, and check that they run as a user without rights. Raises: SystemExit.

    The variable BASE names another base image, for places that cannot fetch the Dockerfile's.
    """
    base = os.environ.get("BASE")
    lines = (DEPLOY / "docker" / "Dockerfile").read_text()
    for wanted, number in ((r"^USER 6379:6379$", 1), (r"^HEALTHCHECK ", 2), (r"^VOLUME /data$", 1)):
        if len(re.findall(wanted, lines, re.MULTILINE)) != number:
            raise SystemExit(f"deploy: the Dockerfile has not {number} times {wanted}")
    if base is None:
        print("deploy: BASE names no image on this machine: the images are not built")
        return
    if not list((ROOT / "dist").glob("*.whl")):
        raise SystemExit("deploy: make dist comes first")
    for target, name, word in (("server", "streamd", "serve"), ("gateway", "streamd-mqtt", "mqtt")):
        _build(base, target, name, word)


def _build(base: str, target: str, name: str, word: str) -> None:
    """Build one of the images, and try its program."""
    common = ("--storage-driver", os.environ.get("STORAGE_DRIVER", "vfs"))
    run("buildah", *common, "build", "--isolation", "chroot", "--format", "docker", "--build-arg", f"BASE={base}",
        "--target", target, "-f", DEPLOY / "docker" / "Dockerfile", "-t", name, ".")  # fmt: skip
    made = run("buildah", *common, "from", name).strip()
    try:
        user = run("buildah", *common, "run", "--isolation", "chroot", made, "--", "id", "-u").strip()
        version = run("buildah", *common, "run", "--isolation", "chroot", made, "--", "streamd", "--version")
        run("buildah", *common, "run", "--isolation", "chroot", made, "--", "streamd", word, "--help")
    finally:
        run("buildah", *common, "rm", made)
    if user != "6379" or not version.startswith("streamd "):
        raise SystemExit(f"deploy: the image {name} runs as {user}, and says {version!r}")
    print(f"deploy: the image {name} is built, and runs {version.strip()} as user {user}")


def run(*words: object) -> str:
    """Run a program to its end and return what it printed; show it if it fails. Raises: SystemExit."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"deploy: {words[0]} {words[1]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

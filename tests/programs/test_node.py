"""ioredis and BullMQ: each program checks what its users do, and says which checks passed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "node"
MODULES = Path("build") / "programs" / "node_modules"


@pytest.mark.parametrize("program", ["ioredis", "bullmq"])
def test_programs_for_node_run(port, program):
    node = shutil.which("node")
    if node is None or not (MODULES / program).is_dir():
        pytest.skip(f"{program} is not installed: make test-programs installs it, where npm is")
    script = SCRIPTS / f"{program}.js"
    done = subprocess.run(
        [node, script, str(port)],
        env={**os.environ, "NODE_PATH": str(MODULES.absolute())},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    checks = re.findall(r'async "(.*)"', script.read_text())
    assert re.findall("passed: (.*)", done.stdout) == checks

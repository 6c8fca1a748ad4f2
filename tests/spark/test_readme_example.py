"""The README's Spark example runs as it stands."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parent.parent.parent / "README.md").read_text(encoding="utf-8")
pytestmark = pytest.mark.spark


def test_the_example_writes_a_row_per_entry(spark, streamd, streamd_port, tmp_path):
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "readStream" in block]
    entry_ids = [streamd.xadd("orders", {"order": f"o-{number}", "cents": 150 * number}) for number in range(3)]
    wanted = [[entry_id, f"o-{number}".encode(), 1.5 * number] for number, entry_id in enumerate(entry_ids)]

    example = example.replace("127.0.0.1:6379", f"127.0.0.1:{streamd_port}").replace('"checkpoints', f'"{tmp_path}')
    exec(compile(example, "README.md", "exec"), {})

    rows = [fields for _, fields in streamd.xrange("orders-in-euros")]
    assert [[row[b"source_id"], row[b"order"], float(row[b"euros"])] for row in rows] == wanted

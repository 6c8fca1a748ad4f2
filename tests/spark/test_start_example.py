"""The Spark example of docs/start.md runs as it stands."""

import pytest

from tests.documents.blocks import blocks_for

pytestmark = pytest.mark.spark


def test_the_example_writes_a_row_per_entry(spark, streamd, streamd_port, tmp_path):
    (block,) = blocks_for(__file__)
    entry_ids = [streamd.xadd("orders", {"order": f"o-{number}", "cents": 150 * number}) for number in range(3)]
    wanted = [[entry_id, f"o-{number}".encode(), 1.5 * number] for number, entry_id in enumerate(entry_ids)]

    example = block.text.replace("127.0.0.1:6379", f"127.0.0.1:{streamd_port}").replace('"checkpoints', f'"{tmp_path}')
    exec(compile(example, str(block), "exec"), {})

    rows = [fields for _, fields in streamd.xrange("orders-in-euros")]
    assert [[row[b"source_id"], row[b"order"], float(row[b"euros"])] for row in rows] == wanted

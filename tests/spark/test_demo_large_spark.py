"""`make demo-large` in a small form, with Spark, which reads all entries from segment files."""

import pytest

from tests.spark.test_demo import left_over, start

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_the_demo_of_large_streams_has_spark_count_each_entry_once(tmp_path):
    demo = start(tmp_path, "--entries", "300000", "--memory-mb", "127", module="demo.large")
    output, _ = demo.communicate(timeout=280)

    assert demo.returncode == 0, output
    assert "lost 0, duplicated 0" in output
    assert "counted by Spark: 300,000 readings of 1,000 devices" in output
    assert left_over(tmp_path) == []
    assert list(tmp_path.iterdir()) == []

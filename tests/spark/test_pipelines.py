"""docs/pipelines.md is so: its pipeline runs three times, and no entry comes twice."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest
import redis

from spark_source.java import spark_environment
from tests.documents.blocks import blocks_for

pytestmark = [pytest.mark.spark, pytest.mark.long]
ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"


@pytest.mark.skipif(not PROGRAM.exists(), reason="spark-pipelines came with Spark 4.1")
def test_a_pipeline_that_is_run_three_times_writes_nothing_twice(
    streamd: redis.Redis, streamd_port: int, tmp_path: Path
) -> None:
    pytest.importorskip("yaml")
    texts = {block.language: block.text for block in blocks_for(__file__)}
    assert set(texts) == {"yaml", "python", "sh"}
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(texts["yaml"].replace("/tmp/orders", str(tmp_path)))
    (tmp_path / "transformations" / "orders.py").write_text(texts["python"].replace("6379", str(streamd_port)))
    assert "spark-pipelines run --spec spark-pipeline.yml" in texts["sh"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **spark_environment(), "SPARK_HOME": str(PROGRAM.parent.parent), "PYTHONPATH": path}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    quiet = ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    words = [str(PROGRAM), "run", "--spec", "spark-pipeline.yml", *quiet, "--conf", "spark.driver.host=127.0.0.1"]

    for run in range(3):
        for n in range(40):
            streamd.xadd("orders", {"order": f"{run}-{n}", "state": "paid" if n % 2 else "open"})
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

        found = Counter(fields[b"order"].decode() for _, fields in streamd.xrange("shipped"))
        assert found == Counter(f"{one}-{n}" for one in range(run + 1) for n in range(1, 40, 2))

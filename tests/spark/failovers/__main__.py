"""`python -m tests.spark.failovers`: a query on a Redis cluster whose masters are killed; 0 only if all is exact."""

import argparse
import sys
import tempfile
from pathlib import Path

from scripts.newest_redis import newest_redis
from tests.spark.failing_over import cluster_of
from tests.spark.failovers.run import Run
from tests.spark.sessions import quiet_session


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    """Return 0 if no row is lost or there twice, and no query stopped but where that is said."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.failovers", description=__doc__)
    parser.add_argument("--failovers", type=int, default=5, help="how many masters are killed (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="which moments")
    parser.add_argument("--durability", default="replicas:1", help="of the sink; none shows what is lost then")
    options = parser.parse_args()
    spark = quiet_session()
    with (
        tempfile.TemporaryDirectory(prefix="streamd-failovers-") as place,
        cluster_of(newest_redis(), Path(place)) as cluster,
    ):
        run = Run(spark, cluster, Path(place), say, options.seed, options.durability)
        result = run.run(options.failovers)
    spark.stop()
    for why, count in result.stops.items():
        print(f"{count} x stopped: {why}")
    print(f"Redis 8.10.2, three masters and three replicas, {result.failovers} failovers in {result.seconds:.0f} s")
    print(f"{result.rows} rows: lost {result.lost}, duplicated {result.duplicated}, loud stops {result.stops.total()}")
    return 0 if result.exact else 1


if __name__ == "__main__":
    sys.exit(main())

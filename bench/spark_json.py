"""JSON in fields by valueFormat=json, beside the same job with from_json and to_json: rows of `make bench-spark`."""

from collections.abc import Callable

from bench.client import ask
from bench.spark import Bench, Jobs

BASKET = "struct<item: string, cents: long, weight: double, tags: array<string>>"
OURS_READ, THEIRS_READ = "streamd, valueFormat=json, into noop", "streamd as text and from_json, into noop"
OURS, THEIRS = "streamd, valueFormat=json", "to_json and streamd as text"


def jobs(bench: Bench, rows: int) -> tuple[Jobs, Jobs]:
    """Return ways to read JSON, and to write it; the stream to read is written here."""
    made = bench.spark.range(0, rows, 1, 4).selectExpr(
        "id AS n",
        "named_struct('item', concat('item ', id), 'cents', id * 7, 'weight', id / 8, 'tags', array('a', 'b')) basket",
    )
    as_text = made.selectExpr("n", "to_json(basket) AS basket")
    numbers = iter(range(1_000_000))

    def write(frame: object, **options: str) -> Callable[[], None]:
        def job() -> None:
            stream = f"out-{next(numbers)}"
            given = {"port": bench.target.port, "stream": stream, **options}
            frame.write.format("streamd").options(**given).mode("append").save()  # type: ignore[attr-defined]
            with bench.target.connect() as sock:
                assert ask(sock, "XLEN", stream) == rows
                ask(sock, "DEL", stream)

        return job

    def into_nothing(frame: object) -> Callable[[], None]:
        return lambda: frame.write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]

    given = {"port": bench.target.port, "stream": "in"}
    as_text.write.format("streamd").options(**given).mode("append").save()
    reader = bench.spark.read.format("streamd").options(**given)
    parsed = reader.schema("n long, basket string").load().selectExpr("n", f"from_json(basket, '{BASKET}') AS basket")
    ours = reader.option("valueFormat", "json").schema(f"n long, basket {BASKET}").load()
    assert ours.exceptAll(parsed).limit(1).count() == 0
    return (
        {OURS_READ: into_nothing(ours), THEIRS_READ: into_nothing(parsed)},
        {OURS: write(made, valueFormat="json"), THEIRS: write(as_text)},
    )


def json_jobs(bench: Bench, rows: int) -> list[tuple[str, Jobs, tuple[str, str]]]:
    """Return title, ways and the compared pair, of reading JSON and of writing it."""
    reading, writing = jobs(bench, rows)
    return [("Reading JSON", reading, (OURS_READ, THEIRS_READ)), ("Writing JSON", writing, (OURS, THEIRS))]

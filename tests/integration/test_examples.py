"""The examples run, end well, and say what is wrong in one line; without what they show, they do not end well."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.differential.redis_process import running_redis

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py"))
CLIENTS = [name for name in PROGRAMS if name != "test_moved_clock"]  # that has no server but its own
NOBODY = "redis://127.0.0.1:1"


def ran(name: str, *words: str) -> tuple[int, str]:
    """Run an example as a user does; return its exit code, and what it printed."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def loaded(name: str) -> ModuleType:
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_worker_group_does_each_job_once_although_a_worker_is_killed():
    code, said = ran("worker_group", "--jobs", "600")
    assert code == 0, said
    assert "killed 1, results 600" in said
    assert "worker-0 wrote 20, and was killed" in said
    assert "lost 0, duplicated 0" in said


def test_the_retrying_producer_leaves_one_entry_of_each_order_with_idmp_and_idmpauto_and_not_without():
    code, said = ran("retrying_producer", "--orders", "60")
    assert code == 0, said
    cuts = "60 orders, connection cut 29 times (15 before the reply came back, 14 before the server had the request)"
    for how, entries, known, twice in (("plain", 75, 0, 15), ("IDMP", 60, 15, 0), ("IDMPAUTO", 60, 15, 0)):
        result = f"entries {entries}, retries known as duplicates {known}, lost 0, there twice {twice}"
        assert f"{how}: {cuts}\n  {result}\n" in said


def test_the_producer_behind_sentinels_also_works_without_them():
    code, said = ran("failover_producer", "--orders", "60")
    assert code == 0, said
    assert said == "orders 60, sent 60 times, each on 0 replicas\nlost 0, there twice 0, in order\n"


def test_the_outbox_brings_each_order_to_the_stream_once_wherever_service_and_relay_are_killed():
    code, said = ran("outbox", "--orders", "60")
    assert code == 0, said
    outbox = loaded("outbox")
    places = (*outbox.SERVICE_DIES, *outbox.RELAY_DIES)
    assert said.count("killed when ") == len(places) == 6
    for number, place in enumerate(places, start=1):
        assert f"killed when {place}: now {number * 10} entries of {number * 10} orders\n" in said
    # Half of a batch, and two whole ones, were sent again.
    assert "orders 60, entries 60, killed 6 times, duplicates suppressed 25\n" in said
    assert "left in the outbox 0, lost 0, twice 0, in order\n" in said


def test_the_outbox_without_idempotent_ids_leaves_twice_what_was_sent_when_the_relay_died():
    code, said = ran("outbox", "--orders", "12", "--without-idmp")
    assert code == 1
    assert "orders 12, entries 17, killed 6 times, duplicates suppressed 0\n" in said
    assert "left in the outbox 0, lost 0, twice 5, in order\n" in said


def test_the_device_has_each_reading_in_the_log_once_with_an_iid_and_not_without():
    code, said = ran("mqtt_device", "--readings", "30")
    assert code == 0, said
    cuts = "30 readings, connection cut 14 times (7 before the PUBACK came back, 7 before the gateway had the message)"
    for how, entries, twice in (("without-iid", 37, 7), ("with-iid", 30, 0)):
        assert f"{how}: {cuts}\n  in the log {entries}, lost 0, there twice {twice}\n" in said


def test_the_backend_counts_each_message_once_although_it_is_killed_before_and_after_its_commit():
    code, said = ran("mqtt_backend", "--readings", "150")
    assert code == 0, said
    for number, place in enumerate(["before its commit", "between its commit and its PUBACK"] * 2, start=1):
        assert f"backend killed {place}; published so far {number * 30}\n" in said
    assert "readings 150, backend killed 4 times, came again after their commit " in said
    assert "counted 150, lost 0, twice 0, average 74.5\n" in said


def test_the_backend_that_looks_no_names_up_counts_twice_what_came_again():
    code, said = ran("mqtt_backend", "--readings", "100", "--kills", "2", "--without-names")
    assert code == 1
    (again,) = map(int, re.findall(r"came again after their commit (\d+)", said))
    assert again >= 1
    assert f"counted {100 + again}, lost 0, twice {again}, " in said


def test_the_tests_with_a_moved_clock_pass():
    code, said = ran("test_moved_clock")
    assert code == 0, said
    assert "5 passed" in said


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_says_what_can_be_asked_of_it_and_its_first_lines_how_to_run_it(name, capsys, monkeypatch):
    example = loaded(name)
    assert re.search(rf"^    python (-m pytest )?examples/{name}\.py", example.__doc__ or "", re.MULTILINE)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        example.main()
    assert ended.value.code == 0
    described, options = capsys.readouterr().out.split("options:")
    assert len(described.splitlines()) >= 3
    # What the first lines offer is what there is.
    assert set(re.findall(r"\[(--[a-z-]+)", example.__doc__ or "")) <= set(re.findall(r"--[a-z-]+", options))


@pytest.mark.parametrize("name", CLIENTS)
def test_an_example_without_a_server_says_so_in_one_line(name, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--url", NOBODY])
    assert loaded(name).main() == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(rf"{name}: {NOBODY}: .*refused.*\n", said.err)


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server 7.0.15")
@pytest.mark.parametrize("name", ["failover_producer", "outbox", "worker_group", "retrying_producer"])
def test_an_example_on_a_server_without_idempotent_xadd_says_what_it_needs(name, capsys, monkeypatch, tmp_path):
    with running_redis(tmp_path, Path("redis-server")) as port:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", "--url", f"redis://127.0.0.1:{port}"])
        assert loaded(name).main() == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"{name}: redis://127.0.0.1:{port}: unknown command 'XCFGSET'")
    assert said.endswith("; this needs streamd, or Redis from 8.6 on")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("worker_group", ["--jobs", "10"]),
        ("worker_group", ["--workers", "1"]),
        ("retrying_producer", ["--cut-every", "1"]),
        ("retrying_producer", ["--url", "rediss://example.org"]),
        ("outbox", ["--orders", "5"]),
        ("mqtt_device", ["--cut-every", "1"]),
        ("mqtt_backend", ["--readings", "100"]),
        ("exactly_once_reader", ["--messages", "100", "--kills", "5"]),
        ("sensors_to_spark", ["--minutes", "1"]),
    ],
)
def test_an_example_refuses_what_it_cannot_show(name, words, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
    with pytest.raises(SystemExit) as ended:
        loaded(name).main()
    assert ended.value.code == 2
    assert f"{name}.py: error: " in capsys.readouterr().err


def test_the_list_of_examples_has_a_line_for_each():
    listed = re.findall(r"^\| \[([\w.]+)\]\(\1\) \| \S", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for pattern in ("*.py", "*.ipynb") for path in EXAMPLES.glob(pattern))

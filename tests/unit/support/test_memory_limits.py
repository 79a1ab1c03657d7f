"""Memory is asked for before it is taken."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from convc.errors import LimitError
from convc.support import memory as limits


def test_a_small_request_passes_and_an_absurd_one_does_not(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: 3 << 30)
    limits.require_memory(3 << 30, "a test")
    with pytest.raises(LimitError) as caught:
        limits.require_memory((3 << 30) + 1, "the input of 'c1'")
    assert caught.value.message == "the input of 'c1' needs 3 GiB (3221225473 bytes) of memory, and 3 GiB are available"
    assert "smaller batch" in caught.value.hint


def test_nothing_is_refused_when_the_system_does_not_tell(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", lambda: None)
    limits.require_memory(1 << 80, "a test")


def test_this_machine_tells():
    assert limits.available_memory() > 1 << 20


def test_the_container_may_allow_less(monkeypatch, tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable:    4000 kB\n")
    monkeypatch.setattr(limits, "_MEMINFO", meminfo)
    monkeypatch.setattr(limits, "_CGROUP", tmp_path)
    assert limits.available_memory() == 4000 * 1024
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 100000\n")
    assert limits.available_memory() == 400_000
    (tmp_path / "memory.max").write_text("max\n")
    assert limits.available_memory() == 4000 * 1024


def test_the_process_may_be_allowed_less(monkeypatch, tmp_path):
    statm = tmp_path / "statm"
    statm.write_text("100 50 10\n")
    monkeypatch.setattr(limits, "_STATM", statm)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000 * resource.getpagesize(), resource.RLIM_INFINITY))
    assert limits.available_memory() == 900 * resource.getpagesize()


def test_memory_that_the_system_refuses_has_a_name():
    with pytest.raises(LimitError) as caught, limits.named_memory("the job", "node 'n'", "its input is x"):
        np.empty(1 << 60, np.uint8)
    assert caught.value.message.startswith("the job needs more memory than there is: unable to allocate 1.00 EiB")
    assert caught.value.where == "node 'n'"
    assert caught.value.hint.startswith("its input is x; use a smaller batch")


def test_without_meminfo_the_page_count_is_asked(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(limits, "_CGROUP", tmp_path)
    monkeypatch.setattr(limits.os, "sysconf", {"SC_AVPHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}.__getitem__)
    assert limits.available_memory() == 40960
    monkeypatch.delattr(limits.os, "sysconf")
    assert limits.available_memory() is None


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (17, "17 bytes"),
        (2048, "2 KiB"),
        (1536 << 20, "1.5 GiB"),
        (999 << 20, "999 MiB"),
        (5 << 60, "5.12e+03 PiB"),
    ],
)
def test_sizes_for_people(size, text):
    assert limits.human_bytes(size) == text

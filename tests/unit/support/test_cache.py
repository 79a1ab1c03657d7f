"""The compile cache: what is kept, when it is used, and what damage, strangers and other processes can do to it."""

from __future__ import annotations

import dataclasses
import logging
import os
import sqlite3
import subprocess
import sys
import zlib
from pathlib import Path

import diskcache
import msgspec
import numpy as np
import pytest

from convc.compiler import fingerprint
from convc.compiler import kernels as kernels_module
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import Kernels, cache_key, kernel_of, shared_problem
from convc.compiler.options import ScheduleOptions
from convc.errors import InputError, PlanError
from convc.ir.problem import ConvProblem
from convc.support import cache as cache_module
from convc.support.cache import KernelCache, default_folder, open_cache

PROBLEM = ConvProblem(in_channels=16, out_channels=24, in_extent=(12, 12), kernel=(3, 3), pad_lo=(1, 1), pad_hi=(1, 1))
ROOT = Path(__file__).resolve().parents[3]
ANY = ScheduleOptions()


@pytest.fixture
def cache(tmp_path):
    opened = KernelCache(tmp_path / "cache")
    yield opened
    opened.close()


@pytest.fixture
def compiled(monkeypatch) -> list[ConvProblem]:
    """The problems that were compiled and not found."""
    calls = []
    monkeypatch.setattr(
        kernels_module, "compile_problem", lambda p, options: calls.append(p) or compile_problem(p, options=options)
    )
    return calls


def database(cache: KernelCache) -> Path:
    cache.close()
    return cache.folder / "cache.db"


def test_a_kernel_is_compiled_once_and_found_the_next_time(cache, compiled):
    first = Kernels(ANY, cache).compiled(PROBLEM)
    second = Kernels(ANY, cache).compiled(dataclasses.replace(PROBLEM, name="of another layer"))
    assert second == first
    assert second is not first
    assert len(compiled) == 1
    assert second == kernel_of(compile_problem(shared_problem(PROBLEM), options=ANY))


@pytest.mark.parametrize(
    "other",
    [
        {"problem": dataclasses.replace(PROBLEM, batch=2)},
        {"problem": dataclasses.replace(PROBLEM, operand="bf16", out="bf16")},
        {"problem": dataclasses.replace(PROBLEM, bias=True)},
        {"options": ScheduleOptions(schedule="reload")},
        {"options": ScheduleOptions(schedule="auto", rows="merged")},
    ],
    ids=str,
)
def test_another_question_has_another_answer(cache, compiled, other):
    Kernels(ANY, cache).compiled(PROBLEM)
    Kernels(other.get("options", ANY), cache).compiled(other.get("problem", PROBLEM))
    assert len(compiled) == 2


def test_another_compiler_finds_nothing(cache, compiled, monkeypatch):
    Kernels(ANY, cache).compiled(PROBLEM)
    monkeypatch.setattr(kernels_module, "compiler_digest", lambda: "of another commit")
    Kernels(ANY, cache).compiled(PROBLEM)
    assert len(compiled) == 2


def test_the_digest_knows_version_sources_templates_and_libraries(monkeypatch, tmp_path):
    inside = tmp_path / "convc"
    (inside / "plan").mkdir(parents=True)
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "kernel.ptx.j2").write_text("text")
    (inside / "plan" / "planner.py").write_text("choice = 1")
    monkeypatch.setattr(fingerprint, "PACKAGE", inside)
    monkeypatch.setattr(fingerprint, "template_folder", lambda: templates)

    def digest() -> str:
        fingerprint.compiler_digest.cache_clear()
        return fingerprint.compiler_digest()

    seen = [digest()]
    assert digest() == seen[0]
    (inside / "plan" / "planner.py").write_text("choice = 2")
    seen.append(digest())
    (inside / "plan" / "planner.py").rename(inside / "planner.py")
    seen.append(digest())
    (templates / "kernel.ptx.j2").write_text("texts")
    seen.append(digest())
    monkeypatch.setattr(fingerprint, "__version__", "9.9")
    seen.append(digest())
    monkeypatch.setattr(fingerprint.importlib.metadata, "version", lambda name: "9.9")
    seen.append(digest())
    assert len(set(seen)) == 6
    fingerprint.compiler_digest.cache_clear()


def test_an_error_is_not_kept(cache, compiled):
    impossible = dataclasses.replace(PROBLEM, in_channels=4096, in_extent=(1 << 17, 1 << 17))
    for _ in range(2):
        with pytest.raises(PlanError):
            Kernels(ANY, cache).compiled(impossible)
    assert len(compiled) == 2


# ---- damage -------------------------------------------------------------------------------------------------


def whole() -> bytes:
    return zlib.compress(msgspec.msgpack.encode(kernel_of(compile_problem(shared_problem(PROBLEM), options=ANY))), 1)


def other_launch(change: dict) -> bytes:
    kernel = msgspec.msgpack.decode(zlib.decompress(whole()))
    kernel["artifact"]["launch"].update(change)
    return zlib.compress(msgspec.msgpack.encode(kernel))


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"not compressed",
        zlib.compress(b"not a message"),
        zlib.compress(msgspec.msgpack.encode({"schedule": "reload"})),
        lambda: whole()[:-20],
        lambda: bytes(byte ^ (at % 1000 == 999) for at, byte in enumerate(whole())),  # one bit may well change nothing
        lambda: other_launch({"grid": [0, 1, 1]}),
        lambda: other_launch({"format": "convc-launch/9"}),
        "a text",
        None,
        17,
    ],
    ids=[
        "empty", "no zlib", "no msgpack", "fields missing", "cut", "bits", "grid", "format", "text", "null", "number",
    ],
)  # fmt: skip
def test_a_damaged_entry_is_compiled_again_and_mended(cache, compiled, entry):
    good = Kernels(ANY, cache).compiled(PROBLEM)
    with sqlite3.connect(database(cache)) as connection:
        changed = connection.execute("UPDATE Cache SET value = ?", (entry() if callable(entry) else entry,))
        assert changed.rowcount == 1
    connection.close()
    assert Kernels(ANY, cache).compiled(PROBLEM) == good
    assert len(compiled) == 2
    assert Kernels(ANY, cache).compiled(PROBLEM) == good
    assert len(compiled) == 2


def test_entries_that_were_exchanged_are_not_found(tmp_path):
    """Somebody has put the kernel of one name under another, whole and unchanged."""
    cache = KernelCache(tmp_path)
    cache.put("one", b"1" * 100)
    cache.put("two", b"2" * 100)
    cache.close()
    with sqlite3.connect(next(tmp_path.glob("*.db"))) as database:
        values = dict(database.execute("SELECT key, value FROM Cache"))
        for name, other in (("one", "two"), ("two", "one")):
            database.execute("UPDATE Cache SET value = ? WHERE key = ?", (values[other], name))
    database.close()
    assert (cache.get("one"), cache.get("two")) == (None, None)
    cache.put("one", b"1" * 100)
    assert cache.get("one") == b"1" * 100
    cache.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("eviction_policy", "stranger"),
        ("disk_stranger", 3),
        ("sqlite_stranger", 3),
        ("size_limit", "x"),
        ("stranger", 1),
    ],
)
def test_a_row_of_a_stranger_in_the_settings_is_no_traceback(tmp_path, name, value):
    cache = KernelCache(tmp_path)
    cache.put("one", b"1")
    cache.close()
    with sqlite3.connect(next(tmp_path.glob("*.db"))) as database:
        database.execute("INSERT OR REPLACE INTO Settings VALUES (?, ?)", (name, value))
    database.close()
    again = KernelCache(tmp_path)
    assert again.get("one") in (b"1", None)
    again.put("two", b"2")
    assert again.get("two") in (b"2", None)
    again.close()


def test_an_entry_that_unpacks_to_more_than_memory_is_damaged(cache, monkeypatch):
    cache.put("bomb", bytes(1 << 20))
    assert cache.get("bomb") == bytes(1 << 20)
    monkeypatch.setattr(cache_module, "MAX_ENTRY_BYTES", 1 << 16)
    assert cache.get("bomb") is None


@pytest.mark.parametrize("damage", ["text", "cut"])
def test_a_damaged_database_is_said_once_and_compiling_goes_on(cache, compiled, caplog, damage):
    Kernels(ANY, cache).compiled(PROBLEM)
    file = database(cache)
    data = file.read_bytes()
    file.write_bytes(b"no database, " * 1000 if damage == "text" else data[: len(data) // 2])
    fresh = KernelCache(cache.folder)
    with caplog.at_level(logging.WARNING, logger="convc.support.cache"):
        kernels = Kernels(ANY, fresh)
        kernels.compiled(PROBLEM)
        kernels.compiled(dataclasses.replace(PROBLEM, batch=2))
    fresh.close()
    assert len(compiled) == 3
    (record,) = caplog.records
    assert "cannot be used" in record.message
    assert str(cache.folder) in record.message


def test_nothing_of_a_stranger_is_unpickled_read_or_removed(tmp_path, compiled):
    """A folder in which diskcache's own Disk stored a pickle that runs code, and a file outside of it."""
    victim = tmp_path / "victim"
    victim.write_text("mine")

    class Trap:
        def __reduce__(self):
            return os.remove, (str(victim),)

    key = cache_key(shared_problem(PROBLEM), ANY)
    with diskcache.Cache(str(tmp_path / "cache")) as stranger:
        stranger.set(key, Trap())
    with sqlite3.connect(tmp_path / "cache/cache.db") as connection:
        (stored,) = connection.execute("SELECT value FROM Cache").fetchone()
        connection.execute("UPDATE Cache SET filename = '../victim'")
    connection.close()
    assert stored
    opened = KernelCache(tmp_path / "cache")
    assert opened.get(key) is None
    Kernels(ANY, opened).compiled(PROBLEM)
    assert len(compiled) == 1
    assert opened.get(key) is not None
    opened.close()
    assert victim.read_text() == "mine"


def test_a_full_folder_loses_its_oldest_entries(tmp_path):
    small = KernelCache(tmp_path / "cache", size_limit=1 << 20)
    for number in range(400):
        small.put(f"key {number}", os.urandom(8192))
    assert small.get("key 0") is None
    assert small.get("key 399") is not None
    small.close()
    assert sum(path.stat().st_size for path in small.folder.glob("cache.db")) < 2 << 20


# ---- where --------------------------------------------------------------------------------------------------


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("CONVC_CACHE", "OFF")
    assert open_cache() is None
    assert open_cache(tmp_path / "asked").folder == tmp_path / "asked"
    monkeypatch.setenv("CONVC_CACHE", str(tmp_path / "named"))
    assert open_cache().folder == tmp_path / "named"
    assert open_cache(False) is None
    monkeypatch.setenv("CONVC_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert open_cache().folder == default_folder()
    assert default_folder().parts[-2:] == ("convc", "kernels")
    assert tmp_path in default_folder().parents


@pytest.mark.parametrize("named_by", ["variable", "argument"])
def test_a_folder_that_cannot_be_is_refused_by_name(monkeypatch, tmp_path, named_by):
    (tmp_path / "file").touch()
    for bad in (tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setenv("CONVC_CACHE", str(bad) if named_by == "variable" else "off")
        with pytest.raises(InputError, match="expected a folder to keep compiled kernels in") as error:
            open_cache(None if named_by == "variable" else bad)
        assert str(bad) in error.value.where
        assert ("CONVC_CACHE" in error.value.where) == (named_by == "variable")


def test_a_home_that_cannot_be_written_costs_only_time(monkeypatch, tmp_path, compiled, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setattr(cache_module, "default_folder", lambda: tmp_path / "file" / "convc")
    monkeypatch.setenv("CONVC_CACHE", "")
    with caplog.at_level(logging.WARNING, logger="convc.support.cache"):
        Kernels(ANY, open_cache()).compiled(PROBLEM)
    assert len(compiled) == 1
    assert len(caplog.records) == 1


# ---- two processes ------------------------------------------------------------------------------------------

WORK = """
import sys
from pathlib import Path
import convc.compiler.kernels
from convc.support.cache import KernelCache
from convc.compiler.compile import compile_problem
from convc.compiler.kernels import Kernels
from convc.compiler.options import ScheduleOptions
from convc.ir.problem import ConvProblem

calls = []
def counted(problem, options):
    calls.append(problem)
    return compile_problem(problem, options=options)
convc.compiler.kernels.compile_problem = counted
print("ready", flush=True)
sys.stdin.readline()
texts = []
cache = KernelCache(Path(sys.argv[1]))
for turn in range(2):
    kernels = Kernels(ScheduleOptions(), cache)
    for channels in range(16, 176, 16):
        problem = ConvProblem(in_channels=channels, out_channels=16, in_extent=(8, 8), kernel=(1, 1))
        texts.append(kernels.compiled(problem).artifact.ptx)
cache.close()
import hashlib
print(len(calls), hashlib.sha256("".join(texts).encode()).hexdigest())
"""


COMPILER = ("islpy", "jinja2", "convc.compiler.planner.search")


def test_two_processes_at_once_share_a_cache_and_a_third_that_finds_all_loads_no_compiler(tmp_path):
    code = f"{WORK}\nprint(*(name for name in {COMPILER} if name in sys.modules))"
    command = [sys.executable, "-c", code, str(tmp_path / "cache")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, cwd=ROOT, **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert [errors for _, errors in said] == ["", ""]
    answers = [output.split() for output, _ in said]
    counts = [int(count) for count, *_ in answers]
    assert answers[0][1] == answers[1][1]
    assert all(count <= 10 for count in counts)
    assert 10 <= sum(counts) <= 20
    assert all(tuple(loaded) == COMPILER for count, _, *loaded in answers if int(count))
    alone = subprocess.run(command, cwd=ROOT, input="go\n", capture_output=True, text=True, timeout=120, check=True)
    assert alone.stdout.split() == ["ready", "0", answers[0][1]]


# ---- the command --------------------------------------------------------------------------------------------


def test_the_command_uses_the_cache_unless_told_not_to(monkeypatch, tmp_path, compiled):
    from click.testing import CliRunner

    from convc.cli.main import main
    from convc.support.resources import model_folder

    model = str(model_folder() / "tiny_conv.onnx")
    monkeypatch.setenv("CONVC_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, arguments, prog_name="convc")
        assert done.exit_code == 0, done.output
        return done.stdout

    cold = run("compile", model, "-o", str(tmp_path / "cold"))
    assert len(compiled) == 1
    assert run("compile", model, "-o", str(tmp_path / "warm")).replace("warm", "cold") == cold
    assert "1 of 1 layers right" in run("verify", model)
    assert len(compiled) == 1
    for name in ("kernel.ptx", "launch.json", "debug_info.json", "plan.json", "tile.json"):
        files = sorted(tmp_path.glob(f"*/kernels/*/{name}"))
        assert len(files) == 2
        assert files[0].read_bytes() == files[1].read_bytes()
    run("verify", model, "--no-cache")
    assert len(compiled) == 2
    run("compile", model, "-o", str(tmp_path / "anew"), "--no-cache")
    assert len(compiled) == 3
    (tmp_path / "file").touch()
    monkeypatch.setenv("CONVC_CACHE", str(tmp_path / "file"))
    for arguments in (("verify", model), ("compile", model, "-o", str(tmp_path / "none"))):
        refused = CliRunner().invoke(main, arguments, prog_name="convc")
        assert refused.exit_code == 2
        assert "CONVC_CACHE" in refused.stderr


def test_whole_networks_use_the_cache_unless_told_not_to(monkeypatch, tmp_path, compiled):
    import onnx
    from click.testing import CliRunner

    from convc import backend
    from convc.cli.main import main
    from convc.support.resources import model_folder

    model, x = model_folder() / "tiny_two_convs.onnx", tmp_path / "x.npy"
    given = np.ones((1, 3, 16, 16), np.float32)
    np.save(x, given)
    monkeypatch.setenv("CONVC_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, arguments, prog_name="convc")
        assert done.exit_code == 0, done.output
        return done.stdout

    for _ in range(2):
        run("run", str(model), "--input", str(x), "-o", str(tmp_path / "y.npy"))
        assert len(compiled) == 2
    first = np.load(tmp_path / "y.npy")
    run("run", str(model), "--input", str(x), "-o", str(tmp_path / "y.npy"), "--no-cache")
    assert len(compiled) == 4
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), first)
    own = tmp_path / "own"
    made = onnx.load(model)
    for cache, more in ((own, 2), (own, 0), (False, 2)):
        before = len(compiled)
        backend.prepare(made, precision="tf32", cache=cache).run([given])
        assert len(compiled) == before + more
    for words, more in ((("--no-cache",), 2), ((), 2), ((), 0)):
        before = len(compiled)
        run("verify", str(model), "--reweight", "3", *words, "--precision", "bf16x3")
        assert len(compiled) == before + more

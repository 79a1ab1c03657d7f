"""Pools: all pieces are done whatever happens to workers, and what cannot be done is known by name."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import deeds
import pytest
from support.interrupting import interrupt, start

from convc.errors import InputError, LimitError, WorkerError
from convc.workers import pool as sweep
from convc.workers.executors import cores, executor_opener
from convc.workers.pool import Pool, Task

HERE = Path(__file__).parent


def piece(function, *arguments, name: str = "") -> Task:
    return Task(name=name or function.__name__, function=function, arguments=arguments)


@pytest.fixture(scope="module", autouse=True)
def _findable():
    """Workers find `deeds` as this process does."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [before])])
    yield
    os.environ.pop("PYTHONPATH") if before is None else os.environ.__setitem__("PYTHONPATH", before)


def test_every_piece_is_done_by_processes_of_its_own():
    with Pool(jobs=2) as pool:
        assert sorted(pool.run([piece(deeds.square, n) for n in range(20)])) == [(n, n * n) for n in range(20)]
        pids = {pid for _, pid in pool.run([piece(deeds.identity) for _ in range(8)])}
        assert os.getpid() not in pids
        assert 1 <= len(pids) <= 2
        assert [threads for _, threads in pool.run([piece(deeds.blas_threads)])] == [[1]]
        assert list(pool.run([])) == []
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_nothing_is_opened_before_there_is_work(monkeypatch):
    monkeypatch.setattr(sweep, "executor_opener", lambda executor, jobs: pytest.fail)
    with Pool(jobs=2) as pool:
        assert list(pool.run([])) == []


def test_a_worker_that_dies_takes_no_result_with_it(tmp_path):
    pieces = [piece(deeds.square, n) for n in range(12)]
    pieces[3] = piece(deeds.die_once, str(tmp_path / "flag"), 9)
    with Pool(jobs=2) as pool:
        assert sorted(pool.run(pieces)) == [(n, n * n) for n in range(12)]
        assert (tmp_path / "flag").exists()


def test_a_piece_that_kills_twice_is_named_and_the_others_are_done():
    pieces = [piece(deeds.square, n) for n in range(12)]
    pieces[3] = piece(deeds.die, name="layer3.conv2")
    pieces[11] = piece(deeds.die, name="the last")
    with Pool(jobs=2) as pool:
        results = dict(pool.run(pieces))
    assert sorted(results) == list(range(12))
    assert {index for index, value in results.items() if isinstance(value, WorkerError)} == {3, 11}
    assert results[3].where == "layer3.conv2"
    assert "--jobs 1" in results[3].hint
    assert all(results[n] == n * n for n in range(11) if n != 3)


def test_workers_that_die_again_and_again_end_the_sweep(monkeypatch):
    monkeypatch.setattr(sweep, "MOST_LOSSES", 2)
    with Pool(jobs=1, executor="processes") as pool, pytest.raises(WorkerError, match="lost 3 times"):
        list(pool.run([piece(deeds.die) for _ in range(5)]))


def test_an_error_of_a_piece_arrives_whole():
    with Pool(jobs=2) as pool:
        with pytest.raises(LimitError) as error:
            list(pool.run([piece(deeds.refuse, 7), piece(deeds.square, 1)]))
        assert (error.value.message, error.value.where, error.value.hint) == ("no memory for 7", "node 'n'", "buy some")
        with pytest.raises(ZeroDivisionError):
            list(pool.run([piece(deeds.fail)]))


def test_an_executor_of_the_caller_is_used_and_left_open():
    with concurrent.futures.ThreadPoolExecutor(3) as executor:
        with Pool(executor, 3) as pool:
            assert sorted(pool.run([piece(deeds.square, n) for n in range(9)])) == [(n, n * n) for n in range(9)]
        assert executor.submit(deeds.square, 4).result() == 16


def test_a_piece_that_dask_gave_up_is_named():
    with concurrent.futures.ThreadPoolExecutor(1) as executor, Pool(executor, 1) as pool:
        results = dict(pool.run([piece(deeds.square, 2), piece(deeds.killed_by_dask, name="conv7")]))
    assert results[0] == 4
    assert isinstance(results[1], WorkerError)
    assert results[1].where == "conv7"


def test_an_error_takes_back_what_was_not_begun():
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        taken = []
        with Pool(executor, 8) as pool, pytest.raises(ZeroDivisionError):
            list(pool.run([piece(deeds.fail), *(piece(lambda: taken.append(time.sleep(0.2))) for _ in range(10))]))
        executor.shutdown()
        assert len(taken) <= 2


def test_an_executor_of_the_caller_that_breaks_is_not_opened_again():
    with concurrent.futures.ProcessPoolExecutor(1) as executor, Pool(executor, 1) as pool:
        with pytest.raises(WorkerError, match="the executor broke") as error:
            list(pool.run([piece(deeds.square, 1), piece(deeds.die, name="conv7")]))
        assert "conv7" in error.value.where


@pytest.mark.parametrize(
    ("executor", "jobs", "words"),
    [
        ("threads", 2, "processes or dask://HOST:PORT, got 'threads'"),
        ("dask://", None, "got 'dask://'"),
        ("dask://host", None, "got 'dask://host'"),
        ("dask://host:port", None, "got 'dask://host:port'"),
        ("dask://host:99999", None, "got 'dask://host:99999'"),
        ("dask://host:8786/path", None, "got 'dask://host:8786/path'"),
        ("dask://me@host:8786", None, "got 'dask://me@host:8786'"),
        ("tcp://host:8786", None, "got 'tcp://host:8786'"),
        ("", None, "got ''"),
        ("dask://host:8786", 2, "jobs are processes of this machine"),
        (None, 0, "jobs must be in 1..1024, got 0"),
        (None, 1025, "jobs must be in 1..1024, got 1025"),
    ],
)
def test_what_cannot_be_asked_for(executor, jobs, words):
    with pytest.raises(InputError) as error:
        Pool(executor, jobs)
    assert words in error.value.message


def test_how_many_processes():
    assert 1 <= cores() <= os.cpu_count()
    with Pool() as pool:
        assert pool.optional
        assert pool.here == (cores() == 1)
    assert Pool(None, 1).here
    assert not Pool("processes", 1).here
    assert not Pool(None, 2).optional


def test_a_scheduler_that_is_not_there(monkeypatch):
    monkeypatch.setattr("convc.workers.executors.CONNECT_S", 0.5)
    with pytest.raises(WorkerError, match="no Dask scheduler answers") as error:
        executor_opener("dask://127.0.0.1:9", 1)()
    assert error.value.where == "dask://127.0.0.1:9"


def test_without_distributed_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match="needs the package distributed") as error:
        executor_opener("dask://127.0.0.1:9", 1)()
    assert "convc[cluster]" in error.value.hint


SCRIPT = """
import sys
import deeds
from convc.workers.pool import Pool, Task
def sweep():
    with Pool(jobs=2) as pool:
        for index, value in pool.run([Task(name=str(n), function=deeds.wait_long, arguments=(f"{sys.argv[1]}{n}",))
                                      for n in range(4)]):
            pass
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_parent(tmp_path, how):
    """Ctrl-C ends at once and quietly; and a parent that is killed leaves no workers behind."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "if __name__ == '__main__':\n    sweep()\n")
    parent = start([script, tmp_path / "pid"], stderr=subprocess.PIPE)
    flags = [tmp_path / "pid0", tmp_path / "pid1"]
    deadline = time.monotonic() + 60
    while not all(flag.exists() and flag.read_text() for flag in flags) and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [int(flag.read_text()) for flag in flags]
    if how == signal.SIGINT:
        said = interrupt(parent)  # as a terminal does: all of them get it
    else:
        parent.kill()
        _, said = parent.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(_alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_alive(pid) for pid in workers)
    if how == signal.SIGINT:
        assert said.count("Traceback") == 1  # the parent's own KeyboardInterrupt
        assert said.rstrip().endswith("KeyboardInterrupt")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_script_without_a_guard_is_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "sweep()\n")
    done = subprocess.run(
        [sys.executable, script, tmp_path / "pid"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "worker processes do not start" in done.stderr
    assert "if __name__ == '__main__':" in done.stderr

"""The driver for Triton's runtime, with a stand-in for Triton and kernels that were compiled before."""

from __future__ import annotations

import importlib.metadata
import sys

import numpy as np
import pytest

import convc.triton
from convc.errors import FindingsError, InputError, PtxSyntaxError, ToolError
from convc.ir.launch import load_launch
from convc.triton.versions import check_version
from tests.support.triton_recorded import CACHED, FOREIGN, POINTWISE, PointwiseData, pointwise_metadata
from tests.support.triton_stand_in import kernel, stand_in


@pytest.fixture
def triton(monkeypatch):
    yield stand_in(monkeypatch)
    convc.triton.deactivate()


@pytest.fixture
def added(monkeypatch):
    """A kernel that adds, without lines of source."""
    yield stand_in(monkeypatch, FOREIGN / "vector_add" / "kernel.ptx")
    convc.triton.deactivate()


def pointwise():
    return kernel(signature=POINTWISE, **pointwise_metadata())


ADD = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}


def test_a_program_runs_in_place(added):
    """Numpy arrays go as they are; results, findings and times are there afterwards."""
    session = convc.triton.activate("sm_100a")
    x, y = (np.arange(1000, dtype=np.float32) * each for each in (1, 2))
    out = np.zeros(1000, np.float32)
    kernel("vector_add", ADD).run(x, y, out, 1000, 512, grid=(2,))
    np.testing.assert_array_equal(out, x + y)
    (launch,) = convc.triton.launches()
    assert repr(launch) == "<Launch vector_add: grid 2x1x1, clean, 0 findings>"
    assert convc.triton.findings() == ()
    assert convc.triton.report() == "Launch vector_add: grid 2x1x1, clean, 0 findings"
    (timed,) = convc.triton.time()
    assert timed.chip.name == "b200"
    assert added.active.get_benchmarker()(lambda: None, quantiles=[0.5, 0.2]) == [0.0, 0.0]
    assert session.launches == [launch]


def test_the_device_is_the_target(triton):
    convc.triton.activate("sm_90a")
    driver = triton.active
    assert (driver.get_current_target().arch, driver.get_device_capability()) == (90, (9, 0))
    properties = driver.utils.get_device_properties(0)
    assert (properties["multiprocessor_count"], properties["max_shared_mem"]) == (132, 232448)
    assert not driver.is_active()


def test_deactivated_triton_is_as_before(triton):
    kind = type(pointwise())
    run = kind.run
    convc.triton.activate()
    convc.triton.activate()
    convc.triton.deactivate()
    assert (triton.active, kind.run) == ("the GPU", run)
    with pytest.raises(InputError, match="triton is not active"):
        convc.triton.launches()


def test_a_race_raises_with_lines_of_the_program(triton):
    convc.triton.activate()
    data = PointwiseData()
    with pytest.raises(FindingsError) as caught:
        pointwise().run(*data.arguments, grid=(2,))
    said = str(caught.value)
    assert said.startswith("error[M400]: pointwise: error, ")
    assert "pointwise.py:30: error[race-shared-memory]: write by a copy of warp 0 (copy, pointwise.py:30" in said
    assert "after read by mma of warp 0 (mma, pointwise.py:33" in said
    assert caught.value.findings == convc.triton.findings()
    assert "review[" not in said


def test_findings_instead_of_an_exception(triton):
    convc.triton.activate(raises=False)
    data = PointwiseData()
    pointwise().run(*data.arguments, grid=(2,))
    rules = {finding.rule for finding in convc.triton.findings()}
    assert {"race-shared-memory", "completion-order"} <= rules
    # Without delays of what is asynchronous the race is won, and the results are written all the same.
    np.testing.assert_array_equal(data.y, (data.x.astype("f4") @ data.w.astype("f4").T).astype("f2"))


def test_a_launch_is_saved_for_the_commands(added, tmp_path):
    convc.triton.activate(check=False)
    arrays = [np.full(1000, each, np.float32) for each in (1, 2, 0)]
    kernel("vector_add", ADD).run(*arrays, 1000, 512, grid=(2,))
    folder = convc.triton.launches()[0].save(tmp_path / "add")
    launch = load_launch(folder / "launch.json")
    assert launch.buffers["x"].file == "x.npy"
    done = convc.simulate(folder / "kernel.ptx", folder / "launch.json")
    assert done.buffers["out"].tolist() == [3.0] * 1000


@pytest.mark.parametrize(
    ("version", "message"),
    [("3.4.1", "expected Triton 3.5 to 3.9, got 3.4.1"), ("3.10.0", "got 3.10.0"), ("4", "got 4")],
)
def test_versions_that_are_not_known(version, message):
    with pytest.raises(ToolError, match=message) as caught:
        check_version(version)
    assert caught.value.hint == 'pip install "convc[triton]"'


@pytest.mark.parametrize("version", ["3.5.0", "3.9.0", "3.9.1+git12"])
def test_versions_that_are_known(version):
    assert check_version(version) == version


def test_no_triton(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    with pytest.raises(ToolError, match="Triton is not installed"):
        convc.triton.activate()


def test_no_ptxas(monkeypatch):
    stand_in(monkeypatch)

    class Tools:
        @property
        def ptxas(self):
            raise RuntimeError("Cannot find ptxas")

    monkeypatch.setattr(sys.modules["triton"].knobs, "nvidia", Tools())
    with pytest.raises(ToolError, match=r"Triton 3\.9\.0 .* has no ptxas: Cannot find ptxas"):
        convc.triton.activate()


def test_a_target_that_there_is_not():
    with pytest.raises(InputError, match=r"expected a target among sm_80, .*got 'sm_70'"):
        convc.triton.activate("sm_70")


def test_a_kernel_of_another_target(triton):
    convc.triton.activate("sm_90a")
    with pytest.raises(InputError, match="compiled for sm_100a, and the active target is sm_90a"):
        pointwise().run(*PointwiseData().arguments, grid=(2,))


def test_a_cache_without_text(triton):
    convc.triton.activate()
    with pytest.raises(InputError, match="no PTX of kernel 'vector_add'"):
        kernel("vector_add", ADD).run(1, 2, 3, grid=(2,))


def test_a_text_that_is_refused_says_the_line_of_the_program(triton, monkeypatch, tmp_path):
    convc.triton.activate()
    text = tmp_path / "pointwise.ptx"
    text.write_text(CACHED.read_text().replace("tcgen05.commit.", "tcgen05.comit.", 1))
    monkeypatch.setattr("convc.triton.driver._compiled", lambda metadata: (text.read_text(), str(text)))
    with pytest.raises(PtxSyntaxError, match=r"where: .*pointwise\.py:33"):
        pointwise().run(*PointwiseData().arguments, grid=(2,))

"""The verb and the command: files in and out, the comparison with the simulator, errors, the host program."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import jsonschema
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result
from unit.gpu.fake_driver import BLACKWELL, FakeDriver

import convc
from convc import machine
from convc.cli.main import main
from convc.errors import GpuError
from convc.gpu import cuda
from convc.gpu.contents import digest, drawn
from convc.ir.launch import BufferSpec, load_launch
from convc.machine.base.switches import parse_switches
from convc.machine.options import RunOptions
from convc.support.resources import model_folder, schema_file

FOREIGN = Path(__file__).parents[2] / "foreign"
SAXPY = FOREIGN / "saxpy"
NVCC = shutil.which("nvcc")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The saxpy kernel with its inputs."""
    shutil.copytree(SAXPY, tmp_path / "k")
    for name in ("x", "y"):
        np.save(tmp_path / "k" / f"{name}.npy", np.arange(1000, dtype=np.float32))
    return tmp_path / "k"


def saxpy_gpu(wrong: int | None = None, **more) -> FakeDriver:
    """A GPU that runs saxpy right, or one element of y wrong. Buffers x and y are the first two."""

    def kernel(memory: dict[int, np.ndarray], params: list[bytes]) -> None:
        x, y = (data[:4000].view(np.float32) for _, data in sorted(memory.items())[:2])
        y += np.float32(2.5) * x
        if wrong is not None:
            y[wrong] += 1

    launch = load_launch(SAXPY / "launch.json")
    sizes = [8 if param.__struct_config__.tag == "pointer" else 4 for param in launch.params]
    return FakeDriver(sizes=sizes, kernel=kernel, now=BLACKWELL, **more)


def convc_command(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], prog_name="convc")


@pytest.fixture
def gpu(monkeypatch) -> FakeDriver:
    """The GPU of this machine, which runs saxpy right."""
    used = saxpy_gpu()
    monkeypatch.setattr("convc.api.launching.require_bindings", lambda: None)
    monkeypatch.setattr("convc.api.launching.CudaDriver", lambda: used)
    return used


def test_a_launch_is_compared_timed_and_written(place, gpu):
    launch = place / "kernel.ptx", place / "launch.json"
    done = convc_command("launch", *launch, "--compare", "--time", 3, "-o", f"x={place / 'seen.npy'}")
    assert done.exit_code == 0, done.output
    y = np.float32(3.5) * np.arange(1000, dtype=np.float32)
    wanted = [
        "saxpy on A Blackwell (sm_100, CUDA 13.0)",
        f"y: float32 [1000], digest {digest(y)}",
        f"wrote {place / 'seen.npy'}: buffer x",
        "time: 10.0 us alone (10.0 to 10.0, 3 launches), 10.0 us in a row; 20000 cycles at 2.000 GHz",
        "y: as on the simulator, byte for byte (1000 elements)",
    ]
    assert [line for line in wanted if line not in done.stdout.splitlines()] == [], done.stdout
    np.testing.assert_array_equal(np.load(place / "seen.npy"), np.arange(1000))
    assert gpu.calls[-1] == "close"


def test_a_wrong_element_is_shown_and_ends_with_1(place, monkeypatch):
    monkeypatch.setattr("convc.api.launching.require_bindings", lambda: None)
    monkeypatch.setattr("convc.api.launching.CudaDriver", lambda: saxpy_gpu(wrong=7))
    launch = place / "kernel.ptx", place / "launch.json"
    done = convc_command("launch", *launch, "--compare")
    assert done.exit_code == 1
    assert (
        "y: 1 of 1000 elements differ from the simulator by up to 1, 1 by more than is allowed: WRONG; "
        "[7] is 25.5 on the GPU, 24.5 on the simulator"
    ) in done.stdout
    near = convc_command("launch", *launch, "--compare", "--atol", 1)
    assert near.exit_code == 0, near.output
    assert "all as near as is allowed" in near.stdout


def test_the_report_fits_its_schema(place, gpu):
    done = convc_command(
        "launch", place / "kernel.ptx", place / "launch.json", "--compare", "--time", 2, "--json", "-", "--seed", 1
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    schema = json.loads(schema_file("convc-launched/1").read_text("utf-8"))
    jsonschema.validate(report, schema, cls=jsonschema.Draft202012Validator)
    assert report["device"]["name"] == "A Blackwell"


def test_arrays_and_seeds_from_python():
    launch = load_launch(SAXPY / "launch.json")
    buffers = {name: BufferSpec(dtype="f32", shape=(1000,)) for name in launch.buffers}
    launch = msgspec.structs.replace(launch, buffers=buffers)
    x = np.ones(1000, np.float32)
    done = convc.launch(
        SAXPY / "kernel.ptx",
        launch,
        convc.KernelInputs(arrays={"x": x}, seed=4),
        gpu=convc.GpuOptions(compare=True),
        driver=saxpy_gpu(),
    )
    assert done.ok
    assert repr(done) == "<Launched saxpy on A Blackwell: ok>"
    np.testing.assert_array_equal(done.buffers["y"], drawn(launch.buffers["y"], "y", 4) + np.float32(2.5))


def simulating_gpu(layer) -> FakeDriver:
    """A GPU that asks the simulator, whose sums are as exact as those of hardware."""
    exact = RunOptions(switches=parse_switches((), numerics="exact"))

    def kernel(memory: dict[int, np.ndarray], params: list[bytes]) -> None:
        sizes = [spec.size_bytes for spec in layer.launch.buffers.values()]
        datas = [data[:size] for (_, data), size in zip(sorted(memory.items()), sizes, strict=True)]
        held = dict(zip(layer.launch.buffers, datas, strict=True))
        result = machine.run(layer.ptx, layer.launch, {name: data.copy() for name, data in held.items()}, options=exact)
        for name, data in held.items():
            data[:] = result.buffers[name].reshape(-1).view(np.uint8)

    sizes = [128 if param.__struct_config__.tag == "tensor_map" else 8 for param in layer.launch.params]
    return FakeDriver(sizes=sizes, kernel=kernel, now=BLACKWELL)


def test_a_layer_of_a_build(tmp_path):
    """What is packed and unpacked around the launch is seen."""
    build = convc.compile(model_folder() / "tiny_conv.onnx", tmp_path / "b")
    layer = build.load()
    x = np.random.default_rng(0).integers(-3, 4, layer.layout.model.x_shape).astype(np.float32)
    used = simulating_gpu(layer)
    done = convc.launch(build, None, convc.KernelInputs(arrays=x), gpu=convc.GpuOptions(compare=True), driver=used)
    assert done.ok
    assert len(done.maps) == used.sizes.count(128) > 0
    np.testing.assert_array_equal(done.y, convc.run(build, x))


def test_sums_are_those_of_a_gpu_unless_others_are_asked_for(tmp_path):
    """Sums of float32 round otherwise than hardware: a right kernel would be called wrong on random data."""
    build = convc.compile(model_folder() / "tiny_conv.onnx", tmp_path / "b")
    layer = build.load()
    x = np.random.default_rng(0).standard_normal(layer.layout.model.x_shape).astype(np.float16)
    launched = {
        numerics: convc.launch(
            build,
            None,
            convc.KernelInputs(arrays=x),
            gpu=convc.GpuOptions(compare=True),
            machine=convc.MachineOptions(numerics=numerics),
            driver=simulating_gpu(layer),
        )
        for numerics in (None, "exact", "float32")
    }
    assert {numerics: done.ok for numerics, done in launched.items()} == {None: True, "exact": True, "float32": False}


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        ((5,), {}, "kernel must be the name of a file or folder, or an open Build, got int 5"),
        ((SAXPY / "kernel.ptx", 5), {}, "launch must be the name of a launch file, or a LaunchSpec, got int 5"),
        ((SAXPY / "kernel.ptx", SAXPY / "launch.json", 5), {}, "inputs must be a KernelInputs, got int 5"),
        (
            (SAXPY / "kernel.ptx", SAXPY / "launch.json", convc.KernelInputs(arrays={"x": 5})),
            {},
            "must be an array or the name of a .npy file, got int 5",
        ),
        ((SAXPY,), {"gpu": convc.GpuOptions(atol="1")}, "GpuOptions.atol must be a number, got str '1'"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(arguments, options, said):
    with pytest.raises(convc.ConvcError) as raised:
        convc.launch(*arguments, **options, driver=saxpy_gpu())
    assert said in str(raised.value)


def test_without_bindings_driver_or_gpu_it_says_so(place, monkeypatch):
    class NoDriver:
        """The bindings where there is no libcuda."""

        class CUresult:
            pass

        @staticmethod
        def cuInit(flags):
            raise RuntimeError("no libcuda")

    words = ("launch", place / "kernel.ptx", place / "launch.json")
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", None)
    missing = convc_command(*words)
    assert (missing.exit_code, "pip install 'convc[gpu]'" in missing.stderr) == (2, True)
    package = type("Package", (), {"driver": NoDriver})
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", package)
    missing = convc_command(*words)
    assert (missing.exit_code, "there is no NVIDIA driver here" in missing.stderr) == (2, True)
    assert "a launch needs a GPU and its driver" in missing.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("launch.json",), "convc launch KERNEL.ptx LAUNCH.json"),
        (("kernel.ptx", "launch.json", "--input", "z=x.npy"), "buffer 'z' is not in the launch file"),
        (("kernel.ptx", "launch.json", "-o", "out.npy"), "there is no buffer '' to write"),
        (("kernel.ptx", "launch.json", "--layer", "a"), "are options of build folders"),
        (("kernel.ptx", "launch.json", "--time", "-1"), "launches to time must be in 0"),
        (("kernel.ptx", "launch.json", "--timeout", "0"), "the timeout must be seconds above 0"),
        (("kernel.ptx", "launch.json", "--atol", "nan"), "atol must be a number of at least 0"),
        (("k.cubin", "launch.json", "--compare"), "the simulator runs PTX, got machine code"),
        (("bytes.ptx", "launch.json"), "neither machine code nor UTF-8 text"),
        (("none.ptx", "launch.json"), "there is no such file or folder"),
    ],
)
def test_a_wrong_call_is_answered_before_the_gpu_is_opened(place, gpu, monkeypatch, change, said):
    monkeypatch.chdir(place)
    Path("k.cubin").write_bytes(b"\x7fELF" + bytes(60))
    Path("bytes.ptx").write_bytes(b"\xff\xfe")
    done = convc_command("launch", *change)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert gpu.calls == []


def test_what_the_driver_refuses_has_its_name_number_and_advice():
    """`CudaDriver` on bindings that refuse one call."""

    class Refused(int):
        name = "CUDA_ERROR_NO_BINARY_FOR_GPU"

    class Illegal(int):
        name = "CUDA_ERROR_ILLEGAL_ADDRESS"

    used = object.__new__(cuda.CudaDriver)
    for error, kind, said in (
        (Refused(209), GpuError, r"refused cuMemAlloc: CUDA_ERROR_NO_BINARY_FOR_GPU \(209\)\n.*another GPU"),
        (Illegal(700), convc.errors.GpuFault, r"illegal memory access \(CUDA_ERROR_ILLEGAL_ADDRESS, 700, seen by cuM"),
    ):
        used._cuda = type("Bindings", (), {"cuMemAlloc": staticmethod(lambda size, error=error: (error, None))})
        with pytest.raises(kind, match=said):
            used.allocate(4)


COMPILED = ("cuda_tensor_copy",)
"""Compiling one takes seconds; all were compiled and run on a GPU once (`tests/recordings`)."""


@pytest.mark.parametrize("name", ["saxpy", "cuda_tensor_copy", "cuda_cluster", "cuda_groups", "gluon_conv"])
def test_the_host_program_is_compiled(name, tmp_path):
    """All kinds of parameters, maps, clusters and cooperative launches; what it prints was compared on a GPU."""
    launch = load_launch(FOREIGN / name / "launch.json")
    buffers = {buffer: msgspec.structs.replace(spec, file=None) for buffer, spec in launch.buffers.items()}
    files = convc.write_host_program(
        FOREIGN / name / "kernel.ptx",
        msgspec.structs.replace(launch, buffers=buffers),
        convc.KernelInputs(seed=1),
        tmp_path / "host.cu",
    )
    assert files == [tmp_path / "host.cu"]
    text = files[0].read_text()
    assert ("cuTensorMapEncodeTiled" in text) == (name in ("cuda_tensor_copy", "gluon_conv"))
    assert ("cuTensorMapEncodeIm2col" in text) == (name == "gluon_conv")
    assert ("CLUSTER_DIMENSION" in text) == (name == "cuda_cluster")
    if NVCC is not None and name in COMPILED:
        command = [NVCC, "-std=c++17", "-c", "-o", tmp_path / "host.o", tmp_path / "host.cu", "-Werror", "all-warnings"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["cuda_cluster", "cuda_groups", "gluon_conv"])
def test_the_host_program_is_what_was_read(name, tmp_path, golden):
    """All but the kernel and the version: buffers that are drawn, poison or read, maps, attributes, addresses."""
    launch = load_launch(FOREIGN / name / "launch.json")
    buffers = {buffer: msgspec.structs.replace(spec, file=None) for buffer, spec in launch.buffers.items()}
    launch = msgspec.structs.replace(launch, buffers=buffers)
    kernel = FOREIGN / name / "kernel.ptx"
    first, spec = next(iter(buffers.items()))
    data = np.zeros(spec.size_bytes, np.uint8)
    convc.write_host_program(kernel, launch, convc.KernelInputs(arrays={first: data}, seed=1), tmp_path / f"{name}.cu")
    program = (
        (tmp_path / f"{name}.cu").read_text().replace(kernel.read_text().strip(), "").replace(convc.__version__, "")
    )
    golden("host_programs", {f"{name}.cu": program})


@pytest.mark.parametrize(
    ("words", "kind", "field"),
    [
        ("%envreg1", "COOPERATIVE", "cooperative = 1"),
        ("griddepcontrol.wait", "PROGRAMMATIC_STREAM_SERIALIZATION", "programmaticStreamSerializationAllowed = 1"),
    ],
)
def test_a_host_program_has_the_attributes_that_its_kernel_needs(words, kind, field, place):
    convc_command("launch", place / "kernel.ptx", place / "launch.json", "--emit-host", place / "plain.cu")
    plain = (place / "plain.cu").read_text()
    text = (place / "kernel.ptx").read_text()
    (place / "kernel.ptx").write_text(f"{text}// {words}\n")
    convc_command("launch", place / "kernel.ptx", place / "launch.json", "--emit-host", place / "more.cu")
    more = (place / "more.cu").read_text()
    assert f"CU_LAUNCH_ATTRIBUTE_{kind}" in more
    assert f".{field};" in more
    assert f"CU_LAUNCH_ATTRIBUTE_{kind}" not in plain


def test_contents_that_were_given_lie_beside_the_host_program(place):
    done = convc_command("launch", place / "kernel.ptx", place / "launch.json", "--emit-host", place / "host.cu")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("wrote ") == 3
    assert (place / "x.bin").read_bytes() == np.arange(1000, dtype=np.float32).tobytes()
    assert "FILE_OF_BYTES" in (place / "host.cu").read_text()


def test_a_name_that_means_something_in_a_path_or_in_cpp_is_refused(place):
    launch = json.loads((place / "launch.json").read_text())
    for name in ("../x", 'x"', ".x"):
        launch["buffers"][name] = {"dtype": "u8", "shape": [4]}
        (place / "odd.json").write_text(json.dumps(launch))
        done = convc_command("launch", place / "kernel.ptx", place / "odd.json", "--emit-host", place / "host.cu")
        assert done.exit_code == 2
        assert "cannot stand in a host program" in done.stderr
        assert not (place / "host.cu").exists()
        del launch["buffers"][name]

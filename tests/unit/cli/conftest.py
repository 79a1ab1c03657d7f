"""What the tests of the command line share."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from convc.cli.main import main
from convc.support.resources import model_folder


class Convc:
    """The command, called in this process; every call must end without a traceback."""

    def __call__(self, *arguments: object, stdin: bytes | None = None) -> Result:
        words = [str(argument) for argument in arguments]
        result = CliRunner().invoke(main, words, input=stdin, prog_name="convc")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert "Traceback" not in result.output
        return result

    def good(self, *arguments: object) -> str:
        """What a call prints that must succeed."""
        result = self(*arguments)
        assert result.exit_code == 0, result.output[-1500:]
        return result.stdout

    def refused(self, *arguments: object) -> str:
        """What a call says that must be refused with exit code 2; it prints no result."""
        result = self(*arguments)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert result.stderr.strip()
        return result.stderr


@pytest.fixture(scope="session")
def convc() -> Convc:
    return Convc()


@pytest.fixture(scope="session")
def tiny() -> Path:
    """A model with one convolution, ``conv``: float16, 16 to 24 channels, 3x3, 12x12."""
    return model_folder() / "tiny_conv.onnx"


@pytest.fixture(scope="session")
def two() -> Path:
    """A float32 model with two convolutions, ``stem`` and ``head``, and a Relu."""
    return model_folder() / "tiny_two_convs.onnx"


@pytest.fixture(scope="session")
def _tiny_build(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "build"
    Convc().good("compile", model_folder() / "tiny_conv.onnx", "-o", folder)
    return folder


@pytest.fixture
def build(_tiny_build, tmp_path) -> Path:
    """A private build of the tiny model."""
    return Path(shutil.copytree(_tiny_build, tmp_path / "build"))


@pytest.fixture
def kernel(build) -> Path:
    """Its one kernel.ptx."""
    (path,) = build.glob("kernels/*/kernel.ptx")
    return path


@pytest.fixture
def x(tmp_path) -> Path:
    """An input for the tiny model."""
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).integers(-2, 3, (1, 16, 12, 12)).astype(np.float16))
    return path

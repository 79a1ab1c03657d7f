"""The file that comes from a GPU: the answers of all probes as they are, so that they can be understood again later.

A file may come from a stranger. Only names, sizes and types that are known are taken, and what it says that its answers
mean is not: that is found again from the bytes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from convc.errors import InputError
from convc.probe.kernel import VERSIONS
from convc.probe.probes import Probe, chosen
from convc.support.missing import is_missing, no_file

FORMAT = "convc-probed/1"

MOST_BYTES = 8 << 20
"""A file that is larger comes from no probes."""

MOST_NAME = 200
"""Characters of the name of a device, and of a version."""


MOST_ERROR = 4000
"""Characters of what went wrong with a probe."""


class ProbedDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GPU: its name, its architecture (``sm_90``), and the version of CUDA that its driver knows."""

    name: str
    arch: str
    cuda: str


class ProbedAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer of a probe.

    Attributes:
        probe: its name.
        target: that its kernels were for.
        answers: the bytes that each launch left, in base64.
        error: what went wrong; then there are no answers.
        outcome: what the answers meant to the convc that wrote the file.
    """

    probe: str
    target: str
    answers: tuple[str, ...]
    error: str
    outcome: str


class Probed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answers of a GPU.

    Attributes:
        convc: version of the program that asked.
        date: of the day, as in 2026-11-22.
        device: the GPU.
        probes: in the order in which they ran.
    """

    format: Literal["convc-probed/1"]
    convc: str
    date: str
    device: ProbedDevice
    probes: tuple[ProbedAnswer, ...]


def encoded(data: bytes) -> str:
    """Bytes of an answer as text."""
    return base64.b64encode(data).decode("ascii")


def answer_bytes(probe: Probe, answer: ProbedAnswer, where: str = "") -> tuple[bytes, ...]:
    """The bytes of each launch; `InputError` where they are not as many as the probe's kernels leave."""
    sizes = [kernel.out_bytes for kernel in probe.kernels(answer.target)]
    if len(answer.answers) != len(sizes):
        raise InputError(
            f"probe {probe.name} has {len(sizes)} launches, got answers of {len(answer.answers)}", where=where
        )
    found: list[bytes] = []
    for text, size in zip(answer.answers, sizes, strict=True):
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise InputError(f"an answer of probe {probe.name} is not base64", where=where) from None
        if len(data) != size:
            raise InputError(f"an answer of probe {probe.name} has {size} bytes, got {len(data)}", where=where)
        found.append(data)
    return tuple(found)


def _decoded(file: Path) -> Probed:
    where = str(file)
    if is_missing(file):
        raise no_file(file)
    try:
        if file.stat().st_size > MOST_BYTES:
            raise InputError(f"a file of probes has at most {MOST_BYTES} bytes, got {file.stat().st_size}", where=where)
        return msgspec.json.decode(file.read_bytes(), type=Probed)
    except OSError as problem:
        raise InputError(f"cannot read it: {problem.strerror}", where=where) from None
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"it is no file of `convc probe --run`: {problem}", where=where) from None


def read_probed(file: Path, probes: Mapping[str, Probe]) -> Probed:
    """Read the answers of a GPU.

    Raises:
        InputError: the file is missing, too large or none of this format, names a GPU, probe or target that there is
            not, or a probe twice; what it says of the device is too long.
    """
    where = str(file)
    record = _decoded(file)
    device = record.device
    for text in (device.name, device.arch, device.cuda, record.convc, record.date):
        if len(text) > MOST_NAME or not text.isprintable():
            raise InputError(f"a name has at most {MOST_NAME} printable characters, got {text[:40]!r}...", where=where)
    target = f"{device.arch}a"
    if target not in VERSIONS:
        raise InputError(f"probes are for sm_90 and sm_100, got answers of {device.arch!r}", where=where)
    seen: set[str] = set()
    for answer in record.probes:
        (probe,) = chosen(probes, [answer.probe], where)
        if answer.target != target or target not in probe.targets:
            raise InputError(
                f"probe {probe.name} is for {' and '.join(probe.targets)}, and the GPU is {device.arch}: "
                f"got {answer.target!r}",
                where=where,
            )
        if answer.probe in seen:
            raise InputError(f"probe {answer.probe} is there twice", where=where)
        seen.add(answer.probe)
        if len(answer.error) > MOST_ERROR:
            raise InputError(f"the error of probe {probe.name} has more than {MOST_ERROR} characters", where=where)
        if not answer.error:
            answer_bytes(probe, answer, where)
    return record

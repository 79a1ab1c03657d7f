"""The pytest plugin of convc (``pip install 'convc[pytest]'``): launches of a test run on the simulator, checked.

    @pytest.mark.convc(target="sm_100a", check=True)
    def test_product(convc_simulator):
        done = convc_simulator.exec("kernel.ptx", "launch.json", {"x": numbers})
        assert ...

A marked test, or one that takes the fixture, fails behind its last line where the checkers found an error in a launch:
those of the fixture, and those of Triton and Gluon, where the test's module has imported Triton. The findings are
listed by their cause.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from convc.errors import InputError
from convc.support.counted import counted

if TYPE_CHECKING:
    from convc.api.simulating import Simulation
    from convc.ir.findings import Finding
    from convc.ir.launch import LaunchSpec
    from convc.recorder.program import Recording

OPTIONS = {"target": "sm_100a", "check": True, "strict": False}
"""What the marker says, and what it says where that is left out."""

HELP = (
    "convc(target='sm_100a', check=True, strict=False): run the launches of this test on convc's simulator; it fails "
    "where one has a race, hangs or faults, with strict=True also where the PTX manual forbids what it does"
)


class Launches:
    """The launches of one test, and what was found in them.

    Attributes:
        target: that Triton compiles for, and that host programs see.
        check: whether every checker watches. strict: whether what the manual forbids counts.
        findings: of all launches, in their order.
    """

    def __init__(self, *, target: str, check: bool, strict: bool) -> None:
        self.target = target
        self.check = check
        self.strict = strict
        self.findings: list[Finding] = []

    def exec(
        self,
        kernel: str | Path,
        launch: LaunchSpec | str | Path | None = None,
        buffers: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Simulation:
        """Run a kernel as `convc.simulate` does, which takes the same arguments.

        ``kernel`` alone may be a folder that has ``kernel.ptx`` and ``launch.json``; a build has one for each kernel.
        """
        from convc import api

        if launch is None:
            folder = Path(kernel)
            kernel = folder / "kernel.ptx"
            launch = folder / "launch.json"
        done = api.simulate(kernel, launch, buffers, check=self.check, **options)
        self.findings += done.findings
        return done

    def record(self, command: Sequence[str], **options: Any) -> Recording:
        """Run a CUDA host program as `convc.record` does, which takes the same arguments."""
        from convc import api

        done = api.record(command, target=self.target, check=self.check, **options)
        self.findings += done.findings
        return done

    def wrong(self) -> list[str]:
        """Give a line for each cause of findings, where one of them lets the test fail."""
        from convc.ir.findings import Verdict, worst
        from convc.report.launch import finding_lines

        least = Verdict.rule if self.strict else Verdict.incomplete
        return list(finding_lines(self.findings)) if worst(self.findings) >= least else []


_KEY = pytest.StashKey[Launches]()


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest know the marker."""
    config.addinivalue_line("markers", HELP)


@pytest.fixture
def convc_simulator(request: pytest.FixtureRequest) -> Launches:
    """Run kernels and host programs on convc's simulator; what is found in one lets the test fail."""
    return _launches(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test, its launches of Triton on the simulator too, and fail it for what was found in them."""
    if item.get_closest_marker("convc") is None and _KEY not in item.stash:
        return (yield)
    launches = _launches(item)
    triton = _activated(launches)
    try:
        result = yield
    finally:
        if triton is not None:
            launches.findings += triton.findings()
            triton.deactivate()
        if lines := launches.wrong():
            item.add_report_section("call", "convc", "\n".join(lines))
    if lines:
        title = f"convc found something wrong in the launches of this test ({counted(len(lines), 'cause')}):"
        pytest.fail("\n".join([title, *lines]), pytrace=False)
    return result


def _launches(item: pytest.Item) -> Launches:
    """The launches of a test, made when they are asked for first."""
    if _KEY not in item.stash:
        marker = item.get_closest_marker("convc")
        given: Mapping[str, Any] = {} if marker is None else marker.kwargs
        unknown: Iterable[object] = [*(() if marker is None else marker.args), *(given.keys() - OPTIONS)]
        for word in unknown:
            raise InputError(f"the marker convc takes {', '.join(OPTIONS)}, got {word!r}", where=item.nodeid, hint=HELP)
        options: dict[str, Any] = {**OPTIONS, **given}
        item.stash[_KEY] = Launches(**options)
    return item.stash[_KEY]


def _activated(launches: Launches) -> Any:
    """Triton's driver, where the test's module has imported Triton: its launches are noted, none raises."""
    if "triton" not in sys.modules:
        return None
    from convc import triton

    triton.activate(target=launches.target, check=launches.check, raises=False)
    return triton

"""Every error a user can meet.

One class per kind of mistake. A class carries a stable ``code`` (shown as ``error[P101]``), the exit status of the
command line, and a docstring that explains the kind at length (`convc explain CODE` prints it). An instance carries
what happened: a message (what was expected, what came), where it happened (a node, a file, a span of a text) and a
hint that says what to do.
"""

from __future__ import annotations

from dataclasses import dataclass

SHOWN = 160
"""Characters of a line that are shown where it is longer, as one with a mangled name is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A piece of one line of a text file.

    Attributes:
        file: name shown to the user.
        line, column: 1-based position of the first character.
        length: number of characters marked (at least 1).
        text: the whole source line, without its newline.
    """

    file: str
    line: int
    column: int
    length: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def caret(self) -> str:
        """The source line with carets under the marked characters; of a long line what is around these."""
        number = str(self.line)
        gutter = " " * len(number)
        marked = self.column - 1
        first = 0 if len(self.text) <= SHOWN else max(0, min(marked - SHOWN // 4, len(self.text) - SHOWN))
        text = self.text[first : first + SHOWN]
        before = "..." if first else ""
        behind = "..." if first + SHOWN < len(self.text) else ""
        lead = " " * len(before) + "".join("\t" if ch == "\t" else " " for ch in self.text[first:marked])
        carets = "^" * max(1, min(self.length, first + len(text) - marked))
        return f"{gutter} |\n{number} | {before}{text}{behind}\n{gutter} | {lead}{carets}"


class ConvcError(Exception):
    """A problem that convc can explain."""

    code = "E000"
    exit_code = 2

    def __init__(self, message: str, *, where: str = "", hint: str = "", span: Span | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.span = span

    def __str__(self) -> str:
        lines = [f"error[{self.code}]: {self.message}"]
        if self.span is not None:
            lines += [f"  --> {self.span}", self.span.caret()]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class ModelError(ConvcError):
    """The ONNX file cannot be read: it is missing, truncated, not ONNX, or points outside its own folder."""

    code = "O100"


class NodeError(ConvcError):
    """A node of the model is not one that convc compiles: its group, rank, weights or shape."""

    code = "O200"


class ProblemError(ConvcError):
    """The numbers of a convolution do not fit together (an output of negative size, a kernel of size zero)."""

    code = "C100"


class PlanError(ConvcError):
    """No kernel can be planned: a limit of the hardware (tensor map, shared memory, tensor memory) is exceeded."""

    code = "C200"


class DerivationError(ConvcError):
    """A number in a kernel does not mean what its theorem says, or the derivation itself is refused: convc is wrong.

    No kernel is written. The message has the theorem and the numbers, which a report of the mistake should quote.
    """

    code = "D100"
    exit_code = 1


class TileError(ConvcError):
    """A tile program is invalid: it hangs, copies from outside a box, or writes an element twice."""

    code = "C400"


class LimitError(ConvcError):
    """The work would need more memory than this machine has."""

    code = "C300"


class PtxSyntaxError(ConvcError):
    """The PTX text is not well formed: bad syntax, an undeclared name, or a form that is not in the table."""

    code = "P100"


class UnmodelledError(ConvcError):
    """The PTX text is well formed; the simulator has no semantics for one of its instructions, so nothing is run."""

    code = "P200"


class LaunchError(ConvcError):
    """The launch file is wrong, or does not fit the kernel: grid, block, parameters, tensor maps, buffers."""

    code = "L100"


class BuildError(ConvcError):
    """The build folder is damaged, incomplete, or was not made by convc."""

    code = "B100"


class InputError(ConvcError):
    """An argument or an input array is wrong: a file that is missing, another shape or type than the kernel takes."""

    code = "I100"


class ToolError(ConvcError):
    """An outside tool (ptxas) is missing or refused its input."""

    code = "T100"


class WorkerError(ConvcError):
    """Worker processes were lost or do not start, or a cluster does not answer or runs another version of convc."""

    code = "W100"


class GpuError(ConvcError):
    """A launch on a GPU is not possible: there is no GPU or driver, or the driver refuses a call."""

    code = "G100"


class GpuFault(ConvcError):
    """A kernel faulted on the GPU, exceeded its time limit, or wrote beyond a buffer: its result is lost."""

    code = "G200"
    exit_code = 1


class MachineError(ConvcError):
    """A kernel came to no good end: ``step``, ``cta``, ``warp`` and ``lanes`` say where, as far as it is certain."""

    step: str | None = None
    cta: int | None = None
    warp: int | None = None
    lanes: tuple[int, ...] = ()


class MachineFault(MachineError):
    """The kernel faults, as on the hardware: a bad address, a misaligned copy, a wrong operand.

    ``row`` is the CTA that did it, as its row in the cohort, where who raises the fault knows (`of`).
    """

    code = "M100"
    exit_code = 1
    row: int | None = None

    def of(self, row: int, warp: int | None = None, lanes: tuple[int, ...] = ()) -> MachineFault:
        """Note that it was that CTA, and which warp and lanes of it."""
        self.row = row
        self.warp = warp
        self.lanes = lanes
        return self


class DeadlockError(MachineError):
    """The kernel hangs: no warp can continue and no asynchronous operation is pending."""

    code = "M200"
    exit_code = 1


class EndlessError(MachineError):
    """A warp reached the instruction limit (`--max-instructions`): the kernel does not end, or takes long."""

    code = "M300"
    exit_code = 1


class FindingsError(MachineError):
    """A launch of a Triton program ran under the checkers, and something is wrong: ``findings`` has all of it."""

    code = "M400"
    exit_code = 1

    def __init__(self, message: str, *, findings: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.findings = findings

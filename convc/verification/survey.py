"""Findings of a survey: a line for each model of a folder (`convc.survey`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from convc.support.counted import counted

RIGHT = "right"
"""All that was compared agrees."""

WRONG = "wrong"
"""Something that was compared does not agree, or a kernel fails."""

REFUSED = "refused"
"""convc does not take the model."""

UNFINISHED = "unfinished"
"""No answer in the time that the model had, or its process died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedModel:
    """One model of a survey.

    Attributes:
        file: relative to the folder.
        verdict: one of `RIGHT`, `WRONG`, `REFUSED`, `UNFINISHED`.
        convolutions: that convc compiles; None where the model could not be read.
        left_out: convolutions that it does not compile, ``name: reason``.
        verified: of the convolutions, how many are right; None where that was not reached.
        outputs: compared with the oracle; ``outputs_right``: how many of them agree. None where that was not reached.
        oracle: who said what the outputs must be.
        problem: the first message, where there is any.
        seconds: wall time of each step that was done: list, verify, run.
    """

    file: str
    verdict: str = RIGHT
    convolutions: int | None = None
    left_out: tuple[str, ...] = ()
    verified: int | None = None
    outputs: int | None = None
    outputs_right: int | None = None
    oracle: str = ""
    problem: str = ""
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SurveyReport:
    """The models of a folder, by file name."""

    folder: str
    seed: int
    models: tuple[SurveyedModel, ...]

    def count(self, verdict: str) -> int:
        """Count the models that have a verdict."""
        return sum(model.verdict == verdict for model in self.models)

    @property
    def ok(self) -> bool:
        """Nothing that was compared is wrong."""
        return not self.count(WRONG)

    def __repr__(self) -> str:
        counts = ", ".join(f"{self.count(each)} {each}" for each in (RIGHT, WRONG, REFUSED, UNFINISHED))
        return f"<SurveyReport {self.folder}: {counted(len(self.models), 'model')}, {counts}>"

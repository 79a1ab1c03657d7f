"""The ledger of an audit: places that each rule looked at, accusations, and places that are not understood."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from convc.auditor.rules import ORDER, RULES
from convc.ir.findings import Finding, Site, Verdict
from convc.ptx import Instr


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The places that one rule looked at.

    Attributes:
        rule: its name.
        places: instructions of the text, or facts of the launch. times: how often they came up on the way.
    """

    rule: str
    places: int
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotUnderstood:
    """A place that the audit does not follow.

    Attributes:
        line: of the text; 0 for the text as a whole.
        reason: why, a sentence. lost: whether the warps that came here were followed no further.
        warps: how many they are.
    """

    line: int
    reason: str
    lost: bool
    warps: int = 1


@dataclass(frozen=True, slots=True)
class Doer:
    """A warp at an instruction, for accusations; None: any."""

    cta: int | None
    warp: int | None
    instr: Instr


@dataclass(slots=True)
class Ledger:
    """Collects while an audit goes on. One instruction is accused once of breaking a rule.

    ``by_memory``: an instruction with which threads may synchronise by a word of memory, which is not followed: then
    no lack of order is reported.
    """

    file: str
    places: dict[str, dict[int, int]] = field(default_factory=dict)
    accused: dict[tuple[str, int, Verdict], Finding] = field(default_factory=dict)
    others: dict[tuple[str, int, Verdict], dict[int, None]] = field(default_factory=dict)
    unclear: dict[tuple[int, str], NotUnderstood] = field(default_factory=dict)
    by_memory: Instr | None = None

    def look(self, rule: str, place: int) -> None:
        """A rule looks at an instruction, by its index in the body (below 0: a fact of the launch)."""
        seen = self.places.setdefault(rule, {})
        seen[place] = seen.get(place, 0) + 1

    def accuse(
        self, rule: str, message: str, who: Doer | None, other: Doer | None = None, *, level: Verdict = Verdict.error
    ) -> None:
        """Something breaks a rule; below ``error`` by the letter alone, as kernels do that are known to run."""
        if self.by_memory is not None and rule in ORDER:
            self.unknown(self.by_memory, f"threads may synchronise through memory here: {rule} is not checked")
            return
        line = who.instr.span.line if who else 0
        key = (rule, line, level)
        if other is not None:
            self.others.setdefault(key, {})[other.instr.span.line] = None
        if key in self.accused:
            return
        self.accused[key] = Finding(
            verdict=level,
            rule=rule,
            message=message,
            file=self.file,
            line=line,
            step=who.instr.step if who else None,
            cta=who.cta if who else None,
            warp=who.warp if who else None,
            other=self._site(other),
        )

    def _site(self, who: Doer | None) -> Site | None:
        if who is None:
            return None
        return Site(file=self.file, line=who.instr.span.line, step=who.instr.step, cta=who.cta, warp=who.warp)

    def unknown(self, instr: Instr | None, reason: str, *, lost: bool = False) -> None:
        """A place is not understood."""
        line = instr.span.line if instr is not None else 0
        known = self.unclear.get((line, reason))
        warps = 1 if known is None else known.warps + lost
        self.unclear[line, reason] = NotUnderstood(line=line, reason=reason, lost=lost, warps=warps)

    @property
    def lost(self) -> bool:
        """Whether a warp was not followed to its end."""
        return any(each.lost for each in self.unclear.values())

    def looked(self) -> tuple[Looked, ...]:
        """Every rule with what it looked at, in the order of `RULES`."""
        seen = {rule: self.places.get(rule, {}) for rule in RULES}
        return tuple(Looked(rule=rule, places=len(at), times=sum(at.values())) for rule, at in seen.items())

    def findings(self) -> tuple[Finding, ...]:
        """Accusations, worst first, then by line."""
        said = [self._whole(key, found) for key, found in self.accused.items()]
        return tuple(sorted(said, key=lambda each: (-each.verdict, each.line, each.rule)))

    def _whole(self, key: tuple[str, int, Verdict], found: Finding) -> Finding:
        """An accusation with all lines that it is about besides, and the source of its rule."""
        more = list(self.others.get(key, ()))[1:]
        lines = f", and the same at line{'s' if len(more) > 1 else ''} {', '.join(map(str, more))}" if more else ""
        return replace(found, message=f"{found.message}{lines} [{RULES[found.rule].source}]")

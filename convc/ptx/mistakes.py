"""The errors of instructions: what `diagnose` found, with its place in the text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from convc.errors import PtxSyntaxError
from convc.ptx.diagnose import explain_head, explain_operands, near
from convc.ptx.grammar import match_head
from convc.ptx.lexer import Tokens, shown
from convc.ptx.scope import Names
from convc.ptx.syntax import Form, Label, Operand
from convc.ptx.tables import rows_of

MAX_LOOK = 400
"""Tokens in which a missing semicolon is looked for."""

_OPERATORS = tuple("+-*/<>&^~?")
_STATEMENTS = ("@", "}", "", ".reg", ".shared", ".local", ".param", ".pragma", ".loc")

_INSTEAD = {"wgmma": "sm_100a has tcgen05.mma"}
"""What later targets have instead of an opcode that one target alone has."""


def no_form(
    tokens: Tokens, names: Names, head: str, head_at: int, operands: Sequence[Operand], starts: Sequence[int]
) -> PtxSyntaxError:
    """The error of an instruction that fits no form. ``starts``: first token of each operand, and the semicolon."""
    matches = match_head(head)
    if not matches:
        return bad_head(tokens, head, head_at)
    index, message, hint = explain_operands(head, matches, operands)
    if index >= len(operands):
        return tokens.error(starts[-1], message, hint)
    wrong = operands[index]
    if isinstance(wrong, Label):
        hint = near(wrong.name, names.declared())
    last = starts[index + 1] - (1 if index + 1 == len(operands) else 2)
    return PtxSyntaxError(message, span=tokens.span(starts[index], last), hint=hint)


def bad_head(tokens: Tokens, head: str, head_at: int) -> PtxSyntaxError:
    """The error of an opcode that is unknown, or does not go with its modifiers; the wrong one of them is marked."""
    if not head[:1].isalpha() or not head.isascii():
        return tokens.error(head_at, f"expected an instruction, a label or a directive, got {shown(head)}")
    part, message, hint = explain_head(head)
    words = head.split(".")
    if tokens.texts[head_at] != head:
        return tokens.error(head_at, message, hint)
    before = min(sum(len(word) + 1 for word in words[:part]), len(head) - 1)
    length = len(words[part]) if part < len(words) else 1
    return PtxSyntaxError(message, span=tokens.span_at(tokens.starts[head_at] + before, length), hint=hint)


def no_comma(tokens: Tokens, head: str, head_at: int, at: int) -> PtxSyntaxError:
    """The error where something else than ``,`` or ``;`` stands after an operand."""
    if not rows_of(head.partition(".")[0]):
        return bad_head(tokens, head, head_at)
    token = tokens.texts[at]
    hint = "constant expressions are not read: write the number" if token in _OPERATORS else ""
    return tokens.error(at, f"expected ',' or ';' after the operand, got {shown(token)}", hint)


def no_semicolon(tokens: Tokens, first: int) -> PtxSyntaxError | None:
    """The error where a new statement begins on a later line before the instruction at ``first`` has ended, or None."""
    texts = tokens.texts
    line = tokens.span(first).line
    for at in range(first + 1, min(first + MAX_LOOK, len(texts))):
        token = texts[at]
        if token == ";":
            return None
        here = tokens.span(at).line
        if here > line and (token in _STATEMENTS or texts[at + 1] == ":" or rows_of(token.partition(".")[0])):
            end = tokens.starts[at - 1] + len(texts[at - 1])
            return PtxSyntaxError("';' is missing at the end of this instruction", span=tokens.span_at(end - 1, 1))
        line = here
    return None


def check_age(tokens: Tokens, head: str, head_at: int, form: Form, version: tuple[int, int], target: str) -> None:
    """Raise where the text's ``.version`` or ``.target`` does not have the instruction."""
    if form.ptx > version:
        came, says = (".".join(map(str, each)) for each in (form.ptx, version))
        raise tokens.error(head_at, f"{head!r} needs .version {came}, this text says {says}")
    if form.only and target != form.target:
        what = f"{head!r} is of .target {form.target} only, this text says {target}"
        raise tokens.error(head_at, what, _INSTEAD.get(form.opcode, ""))
    if not _has(target, form.target):
        raise tokens.error(head_at, f"{head!r} needs .target {form.target}, this text says {target}")


@lru_cache(maxsize=1 << 10)
def _has(target: str, needed: str) -> bool:
    """Whether an architecture has what came with another; ``sm_100a`` is only in later targets with a letter too."""
    number, wanted = (int(each.strip("sm_af")) for each in (target, needed))
    return number >= wanted and (needed[-1].isdigit() or not target[-1].isdigit())

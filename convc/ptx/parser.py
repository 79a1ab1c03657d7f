"""From PTX text to a `Module` (PTX manual, chapters 4, 5, 7 and 11).

The file begins with ``.version`` and ``.target``; then come variables, functions and kernels. Debug sections, ``.loc``,
``.file``, pragmas and aliases are read over: they do not change what a kernel does.

A text of many entries with nothing but the names of those that are not wanted.

What stands in their parameters and bodies is not even taken apart into tokens.

Libraries put dozens of kernels into one text. Reading all of them for the one that runs takes as many times as long.
"""

from __future__ import annotations

import re
from dataclasses import replace

from convc.errors import PtxSyntaxError
from convc.ptx.body import Body
from convc.ptx.declare import expect, read_parameters, read_variables, skip_line
from convc.ptx.diagnose import near
from convc.ptx.lexer import Tokens, shown
from convc.ptx.numbers import read_integer
from convc.ptx.scope import MAX_REGISTERS, Budget, Entry, check_name
from convc.ptx.syntax import Func, Kernel, Module, Symbol, Variable

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_VARIABLES = (".global", ".const", ".shared")
_NUMBERED = (
    ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".maxnreg", ".reqnctapercluster", ".maxclusterrank",
    ".blocksareclusters",
)  # fmt: skip
_BARE = (".noreturn", ".explicitcluster", ".blocksareclusters")
_TOP = (".entry", ".func", *_LINKAGE, *_VARIABLES, ".file", ".section", ".pragma", ".alias")


def parse(text: str, file: str = "kernel.ptx", entry: str | None = None) -> Module:
    """Read one PTX file.

    Args:
        text: the source.
        file: its name, for messages.
        entry: the kernel that is wanted: of the others the names are read, and their bodies are empty. None: all.

    Raises:
        PtxSyntaxError: the text is not well formed, names something undeclared, or uses an instruction that is not
            in the table; with the place and, where one is near, the spelling that was probably meant.
    """
    tokens = Tokens(text if entry is None else without_other_bodies(text, entry), file)
    module = _Parser(tokens, entry).module()
    tokens.forget()
    return module


class _Parser:
    def __init__(self, tokens: Tokens, wanted: str | None) -> None:
        self.tokens = tokens
        self.wanted = wanted
        self.texts = tokens.texts
        self.at = 0
        self.version = (0, 0)
        self.target = ""
        self.names: dict[str, Entry] = {}
        self.variables: dict[str, Variable] = {}
        self.kernels: list[Kernel] = []
        self.functions: dict[str, Kernel] = {}
        self.extern_shared: Variable | None = None
        self.budget = Budget(MAX_REGISTERS)  # of all functions

    def module(self) -> Module:
        """Everything from ``.version`` to the end of the text."""
        self.version = self._version()
        self.target = self._target()
        if self.texts[self.at] == ".address_size":
            if self.texts[self.at + 1] != "64":
                raise self._error(self.at + 1, f"expected .address_size 64, got {shown(self.texts[self.at + 1])}")
            self.at += 2
        while self.texts[self.at]:
            self._statement()
        return Module(
            file=self.tokens.file,
            version=self.version,
            target=self.target,
            address_size=64,
            kernels=tuple(self.kernels),
            functions=tuple(self.functions.values()),
            variables=tuple(self.variables.values()),
        )

    def _error(self, at: int, message: str, hint: str = "") -> PtxSyntaxError:
        return self.tokens.error(at, message, hint)

    def _version(self) -> tuple[int, int]:
        if self.texts[0] != ".version":
            raise self._error(0, f"a PTX file begins with .version, this one with {shown(self.texts[0])}")
        found = re.fullmatch(r"([0-9]{1,2})\.([0-9])", self.texts[1])
        if found is None:
            raise self._error(1, f"expected a version such as 9.0, got {shown(self.texts[1])}")
        self.at = 2
        return int(found[1]), int(found[2])

    def _target(self) -> str:
        if self.texts[self.at] != ".target":
            raise self._error(self.at, f"expected .target after .version, got {shown(self.texts[self.at])}")
        target = self.texts[self.at + 1]
        if not re.fullmatch(r"sm_[0-9]{2,3}[af]?", target):
            raise self._error(self.at + 1, f"expected a target such as sm_100a, got {shown(target)}")
        self.at += 2
        while self.texts[self.at] == ",":
            self.at += 2
        return target

    def _statement(self) -> None:
        token = self.texts[self.at]
        if token in (".file", ".loc"):
            self.at = skip_line(self.tokens, self.at)
        elif token == ".section":
            self._skip_section()
        elif token in (".pragma", ".alias"):
            while self.texts[self.at] not in (";", ""):
                self.at += 1
            self.at = expect(self.tokens, self.at, ";", f"at the end of {token}")
        else:
            linkage = None
            while self.texts[self.at] in _LINKAGE:
                linkage = self.texts[self.at][1:]
                self.at += 1
            token = self.texts[self.at]
            if token in _VARIABLES:
                self._module_variables(linkage)
            elif token in (".entry", ".func"):
                self._function(linkage)
            else:
                raise self._error(
                    self.at, f"expected a kernel, a function or a variable, got {shown(token)}", near(token, _TOP)
                )

    def _skip_section(self) -> None:
        opened = self.at
        while self.texts[self.at] not in ("}", ""):
            self.at += 1
        if not self.texts[self.at]:
            raise self._error(opened, "this section is never closed: '}' is missing")
        self.at += 1

    def _module_variables(self, linkage: str | None) -> None:
        self.at, found = read_variables(self.tokens, self.at, linkage=linkage, resolve=self.names.get)
        for variable, where in found:
            if variable.name in self.names:
                raise self._error(where, f"{variable.name!r} is declared twice")
            name = variable.name
            if variable.space == "shared" and linkage == "extern":
                # All of them are the same memory, so all become the first one, with the strictest alignment.
                first = self.extern_shared or variable
                self.extern_shared = replace(first, align=max(first.align, variable.align))
                name = first.name
                self.variables[name] = self.extern_shared
            else:
                self.variables[name] = variable
            self.names[variable.name] = Symbol(name, variable.space), f"&{variable.space}"

    def _function(self, linkage: str | None) -> None:
        is_entry = self.texts[self.at] == ".entry"
        self.at += 1
        returns = self._parameters() if not is_entry and self.texts[self.at] == "(" else ()
        name = self.texts[self.at]
        where = self.at
        check_name(self.tokens, name, where)
        self.at += 1
        params = self._parameters() if self.texts[self.at] == "(" else ()
        known = self.functions.get(name)
        if name in self.names and not (known is not None and known.declared_only and not is_entry):
            raise self._error(where, f"{name!r} is declared twice")
        self.names[name] = Func(name), "&func"
        directives = self._directives()
        kernel = Kernel(
            name=name,
            entry=is_entry,
            linkage=linkage,
            params=params,
            returns=returns,
            directives=directives,
            declared_only=not is_entry and self.texts[self.at] == ";",
        )
        if kernel.declared_only:
            self.at += 1
        elif is_entry and self.wanted not in (None, name) and self.texts[self.at] == "{":
            self._skip_body()
        else:
            kernel = self._with_body(kernel)
        if is_entry:
            self.kernels.append(kernel)
        else:
            self.functions[name] = kernel

    def _skip_body(self) -> None:
        """Go behind the closing brace of the body that begins here."""
        texts = self.texts
        opened = self.at
        depth = 1
        while depth:
            try:
                close = texts.index("}", self.at + 1)
            except ValueError:
                raise self._error(opened, "this body is never closed: '}' is missing") from None
            depth += texts[self.at + 1 : close].count("{") - 1
            self.at = close
        self.at += 1

    def _with_body(self, kernel: Kernel) -> Kernel:
        """The function with the body that follows its head."""
        if self.texts[self.at] != "{":
            raise self._error(
                self.at,
                f"expected '{{' and the body, got {shown(self.texts[self.at])}",
                near(self.texts[self.at], (*_NUMBERED, *_BARE)),
            )
        params = (*kernel.returns, *kernel.params)
        budget = Budget(MAX_REGISTERS) if kernel.entry else self.budget
        body = Body(self.tokens, self.at, self.names, params, self.version, self.target, budget)
        body.read()
        self.at = body.at
        names = body.names
        symbols = [self.names[each][0] for each in names.used]
        used = dict.fromkeys(each.name for each in symbols if isinstance(each, Symbol) and each.space == "shared")
        shared = [self.variables[each] for each in used]
        dynamic = self.extern_shared
        # The body lists its parameters with its variables, in front, but for those in registers.
        own = names.variables[len([each for each in params if each.space != "reg"]) :]
        return replace(
            kernel,
            shared=(
                *(each for each in shared if each.linkage != "extern"),
                *(each for each in own if each.space == "shared"),
            ),
            extern_shared=dynamic if dynamic is not None and dynamic.name in used else None,
            local=tuple(each for each in own if each.space == "local"),
            call_params=tuple(each for each in own if each.space == "param"),
            registers=tuple(names.registers),
            body=tuple(body.body),
        )

    def _parameters(self) -> tuple[Variable, ...]:
        found, self.at = read_parameters(self.tokens, self.at, self.names.get)
        return found

    def _directives(self) -> dict[str, tuple[int, ...]]:
        """The performance-tuning directives between head and body, by their names without the dot."""
        found: dict[str, tuple[int, ...]] = {}
        while True:
            token = self.texts[self.at]
            if token == ".pragma":
                self.at = expect(self.tokens, self.at + 2, ";", "after the pragma")
            elif token in _NUMBERED and self.texts[self.at + 1][:1].isdigit():
                found[token[1:]] = self._extents(token)
            elif token in _BARE:
                found[token[1:]] = ()
                self.at += 1
            elif token in _NUMBERED:
                raise self._error(self.at + 1, f"expected a number after {token}, got {shown(self.texts[self.at + 1])}")
            else:
                break
        return found

    def _extents(self, token: str) -> tuple[int, ...]:
        """``.maxntid 128, 2``: three numbers for the directives that count along axes, one for the others."""
        values: list[int] = []
        while True:
            self.at += 1
            value = read_integer(self.texts[self.at])
            if not value or value > 1 << 31:
                raise self._error(self.at, f"expected a number after {token}, got {shown(self.texts[self.at])}")
            values.append(value)
            self.at += 1
            if self.texts[self.at] != ",":
                break
            if len(values) == 3:
                raise self._error(self.at, f"{token} takes at most three numbers")
        three = token in (".maxntid", ".reqntid", ".reqnctapercluster")
        if three:
            values += [1] * (3 - len(values))
        elif len(values) > 1:
            raise self._error(self.at - 1, f"{token} takes one number")
        return tuple(values)


_ENTRY = ".entry"
_HEAD = re.compile(r"(?:[ \t]*\.\w+)*[ \t]*\.entry[ \t]+([\w$]+)")
_NO_CODE = re.compile(r'"[^"\n]*"|//[^\n]*')
_BRACE_ASIDE = re.compile(r'"[^"\n{}]*+[{}]|//[^\n{}]*+[{}]')
"""A brace that may be inside of a string or a comment."""

CLOSING = "\n}"


def without_other_bodies(text: str, entry: str) -> str:
    """The text in which other entries have neither parameters nor a body; lines keep their numbers.

    Texts with block comments stay as they are, and so do bodies that do not end with a brace at the start of a line.
    """
    if "/*" in text or text.count(_ENTRY) < 2:
        return text
    aside = _BRACE_ASIDE.search(text) is not None
    parts: list[str] = []
    done = 0
    at = 0
    while (at := text.find(_ENTRY, at)) >= 0:
        head = _HEAD.match(text, max(done, text.rfind("\n", done, at) + 1))
        at += len(_ENTRY)
        if head is None or head[1] == entry:
            continue
        opened = text.find("{", head.end())
        end = _end(text, opened + 1, aside) if opened > 0 else None
        if end is None:
            return text
        named = text[done : head.end()]
        parts += [named, "\n" * text.count("\n", head.end(), opened), "{", "\n" * text.count("\n", opened, end)]
        done = at = end
    parts.append(text[done:])
    return "".join(parts)


def _end(text: str, start: int, aside: bool) -> int | None:
    """The position of the line break before the brace that closes a body; None where there is no such line.

    ``aside``: strings and comments may have braces.
    """
    depth = 0
    while (end := text.find(CLOSING, start)) >= 0:
        if aside:
            code = _NO_CODE.sub("", text[start:end])
            depth += code.count("{") - code.count("}")
        else:
            depth += text.count("{", start, end) - text.count("}", start, end)
        if depth == 0:
            return end
        depth -= 1  # for the brace itself
        start = end + len(CLOSING)
    return None

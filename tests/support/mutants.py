"""Code that was changed on purpose: of the compiler in this process, and of the derivation beside it."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FunctionType, ModuleType

import msgspec

from convc.derived import record

DERIVE = Path(record.SOURCES)


def replaced(source: str, old: str, new: str, where: str) -> str:
    """A source with one place of it changed; the place must be there, once."""
    assert source.count(old) == 1, f"{where} has {old!r} {source.count(old)} times"
    return source.replace(old, new)


@contextmanager
def changed_code(module: str, old: str, new: str) -> Iterator[None]:
    """Run the functions of a module as they are with one place of its source changed.

    The functions stay the same objects, so that whoever has imported one runs the changed code too.
    """
    real = importlib.import_module(module)
    source = replaced(inspect.getsource(real), old, new, module)
    other = ModuleType(module)
    other.__dict__.update({name: value for name, value in vars(real).items() if name.startswith("__")})
    sys.modules[module] = other  # dataclasses look up the module of a class
    try:
        exec(compile(source, real.__file__ or "", "exec"), other.__dict__)
    finally:
        sys.modules[module] = real
    kept = {function: function.__code__ for function in functions(real)}
    codes = {function.__qualname__: function.__code__ for function in functions(other)}
    assert any(codes[f.__qualname__] != code for f, code in kept.items()), f"{new!r} changes no function of {module}"
    try:
        for function in kept:
            function.__code__ = codes[function.__qualname__]
        forget()
        yield
    finally:
        for function, code in kept.items():
            function.__code__ = code
        forget()


def functions(module: ModuleType) -> list[FunctionType]:
    """The functions of a module and the methods of its classes, behind caches and properties too."""
    found: list[FunctionType] = []
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        for each in (value, *vars(value).values()) if inspect.isclass(value) else (value,):
            while not isinstance(each, FunctionType):
                inner = (getattr(each, name, None) for name in ("fget", "__func__", "__wrapped__", "method", "func"))
                each = next((one for one in inner if one is not None), None)
                if each is None:
                    break
            if isinstance(each, FunctionType) and each.__module__ == module.__name__:
                found.append(each)
    return found


def forget() -> None:
    """Clear what functions of the compiler remember, but for the record of the derivation."""
    for name, module in list(sys.modules.items()):
        if name.startswith("convc.compiler."):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear") and value is not record.derived:
                    value.cache_clear()


def put_record(monkeypatch, changed: record.Derived) -> None:
    """Put a record in the place of the derived one, wherever it is read."""
    kept = record.derived
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in ("convc", "support") and vars(module).get("derived") is kept:
            monkeypatch.setattr(module, "derived", lambda: changed)


def derived_by(file: str, old: str, new: str) -> record.Derived | None:
    """What `convc.derive` gives with one place of a file changed; None where a theorem or a rewrite refuses that."""
    source = replaced((DERIVE / file).read_text(encoding="utf-8"), old, new, file)
    kept = {name: module for name, module in sys.modules.items() if name.split(".")[:2] == ["convc", "derive"]}
    for name in kept:
        del sys.modules[name]
    package = ModuleType("convc.derive")
    package.__path__ = [str(DERIVE)]
    sys.modules["convc.derive"] = package
    changed = f"convc.derive.{file.removesuffix('.py')}"
    finder = _Finder(changed, source)
    sys.meta_path.insert(0, finder)
    try:
        refused = importlib.import_module("convc.derive.theorem").Refused
        text = importlib.import_module("convc.derive.write").text()
    except refused:
        return None
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[:2] == ["convc", "derive"]]:
            del sys.modules[name]
        sys.modules.update(kept)
        importlib.import_module("convc").derive = kept.get("convc.derive")
    return msgspec.json.decode(text, type=record.Derived)


class _Finder:
    """Finds one module in a text, and no other."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.source = source

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        return ModuleSpec(name, self)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.source, self.name, "exec"), module.__dict__)

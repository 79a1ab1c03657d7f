"""Gluon, of which one kernel was compiled: as it is on the page, and with the wait that is missing there."""

import inspect
import json
from types import SimpleNamespace

from triton.runtime.cache import CACHE
from triton.runtime.jit import JITFunction

TYPES = {
    "x": "tensordesc<fp16[128,64],layout>", "w": "tensordesc<fp16[64,64],layout>",
    "y": "tensordesc<fp16[128,64],layout>", "C": "i32",
}  # fmt: skip


def jit(function):
    mended = "        mbarrier.wait(done, phase)\n" in inspect.getsource(function)
    for found in CACHE.glob("*/pointwise.json"):
        waits = found.with_suffix(".source").read_text().count("wait_barrier")
        if waits == (3 if mended else 2):
            return JITFunction(SimpleNamespace(**json.loads(found.read_text())), TYPES)
    raise LookupError("no kernel was compiled from this text")

"""Edits of a convolution kernel's text, as a user makes them by hand: right ones, and ones that break it."""

from __future__ import annotations

import re


def edited(text: str, pattern: str, replacement: str) -> str:
    """A kernel's text with every match of a pattern replaced; there must be one."""
    changed, count = re.subn(pattern, replacement, text)
    assert count, f"the kernel has no {pattern}"
    return changed


EXPECT_MORE = (r"(expect_tx\S* _, \S+, )(\d+);", r"\g<1>1\g<2>;")
"""Announce more bytes than the copies bring: the kernel waits for ever."""

FORGET_8_TO_15 = (r"\n.*st\.global\.v4\.b32 \[%to\+16\].*", "")
"""Leave the second piece of float16 channels unwritten."""

MISPLACE = (r"st\.global\.v4\.b32 \[%to\+0\]", "st.global.v4.b32 [%to+8]")
"""Store 16 bytes at an address that is no multiple of 16."""

MISPLACE_SHARED = (r"st\.shared\.v4\.b32 \[%to0\+0\]", "st.shared.v4.b32 [%to0+8]")
"""Do so in shared memory, where results wait for their tensor copy."""

ONE_ULP = (r"(add\.rn\.f32 %v1, %v1, %b1;)", r"\1 mul.rn.f32 %v1, %v1, 0f3F800001;")
"""Move every result of a channel by one unit in the last place of float32."""

NEVER_FREE = (r"\n.*tcgen05\.dealloc.*", "")
"""Leave the tensor memory allocated at the end; no result depends on it."""

KEEP_OLD = (r"setp\.ne\.u32 %add, (%\w+), 0;", r"setp.ge.u32 %add, \1, 0;")
"""The first MMA adds to a tensor memory that nobody has written."""

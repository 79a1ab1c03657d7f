"""The PTX in fat binaries: which text is taken, compressed ones, and what is refused."""

from __future__ import annotations

import ctypes.util
import struct

import pytest

from convc.errors import InputError
from convc.recorder.fatbin import LZ4_FLAG, MOST_TEXT, ptx_of


def text(target: str) -> bytes:
    return f".version 8.6\n.target {target}\n.address_size 64\n// {target}\n".encode()


def entry(data: bytes, kind: int = 1, packed: bytes | None = None, flags: int = 0, whole: int | None = None) -> bytes:
    """One entry of a fat binary; ``packed``: its contents, where they are compressed."""
    contents = data if packed is None else packed
    contents += b"\0" * (-len(contents) % 8)
    head = bytearray(64)
    struct.pack_into("<HHIQ", head, 0, kind, 0x101, 64, len(contents))
    struct.pack_into("<I", head, 16, 0 if packed is None else len(packed))
    struct.pack_into("<QQQ", head, 40, flags, 0, (len(data) if packed else 0) if whole is None else whole)
    return bytes(head) + contents


def fatbin(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def zstd(data: bytes) -> bytes:
    """A frame of Zstandard with one block that is not compressed (RFC 8878)."""
    head = struct.pack("<IBI", 0xFD2FB528, 0xA0, len(data))
    return head + (len(data) << 3 | 1).to_bytes(3, "little") + data


def lz4(data: bytes, repeated: int) -> bytes:
    """A block of LZ4: literals, then the first of them again, as often, then five literals."""
    count = len(data)
    assert count < 15 + 255
    assert 4 <= repeated < 19
    first = bytes([15 << 4 | repeated - 4, count - 15]) + data + struct.pack("<H", count)
    return first + bytes([5 << 4]) + data[-5:]


@pytest.mark.parametrize(
    ("targets", "target", "taken"),
    [
        (("sm_100a",), "sm_100a", "sm_100a"),
        (("sm_80", "sm_100a", "sm_90"), "sm_100a", "sm_100a"),
        (("sm_80", "sm_90a", "sm_90"), "sm_100a", "sm_90"),
        (("sm_100f", "sm_90"), "sm_100a", "sm_100f"),
        (("sm_100a", "sm_80"), "sm_90a", "sm_80"),
    ],
)
def test_the_text_that_fits_best_is_taken(targets, target, taken):
    machine_code = b"\x7fELF" + text(target) + b"of another kind\n"
    image = fatbin(entry(machine_code, kind=2), *(entry(text(each)) for each in targets))
    assert ptx_of(image, target, "program").endswith(f"// {taken}\n")


def test_texts_that_are_compressed():
    if ctypes.util.find_library("zstd") is not None:
        packed = zstd(text("sm_90"))
        assert (
            ptx_of(fatbin(entry(text("sm_90"), packed=packed, flags=0x8000)), "sm_90a", "program")
            == text("sm_90").decode()
        )
    whole = text("sm_90") + text("sm_90")[:10] + text("sm_90")[-5:]
    packed = lz4(text("sm_90"), 10)
    image = fatbin(entry(whole, packed=packed, flags=LZ4_FLAG))
    assert ptx_of(image, "sm_90a", "program") == whole.decode()


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (fatbin(entry(b"\x7fELF", kind=2)), "machine code and no PTX"),
        (b"\x7fELF and so on", "machine code and no PTX"),
        (fatbin(entry(text("sm_120a"))), "PTX for sm_120a alone"),
        (fatbin(entry(text("sm_90")))[:-8], "cut off"),
        (
            fatbin(entry(b"", packed=b"\x10", flags=LZ4_FLAG, whole=MOST_TEXT + 1)),
            f"at most {MOST_TEXT} bytes",
        ),
        (fatbin(entry(text("sm_90"), packed=b"\x04\x09\x00\x01", flags=LZ4_FLAG)), "cannot be read"),
    ],
)
def test_images_without_a_text_for_the_simulator(image, message):
    with pytest.raises(InputError, match=message) as refused:
        ptx_of(image, "sm_100a", "program")
    assert refused.value.where == "program"

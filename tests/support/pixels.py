"""The pixels of a PNG as a browser writes it: 8 bits a channel, colours with or without alpha, not interlaced.

Source: Portable Network Graphics (PNG) Specification, third edition, 9.2 (filter types) and 11.2 (chunks).
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

CHANNELS = {2: 3, 6: 4}
"""By the colour type."""


def pixels_of(png: bytes) -> np.ndarray:
    """Red, green and blue, uint8 (height, width, 3)."""
    at = 8
    data = b""
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            assert (depth, interlaced) == (8, 0)
        elif kind == b"IDAT":
            data += body
        at += length + 12
    channels = CHANNELS[colour]
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    above = np.zeros((width, channels), np.uint8)
    found: list[np.ndarray] = []
    for line in lines:
        above = _unfiltered(int(line[0]), line[1:].reshape(width, channels), above)
        found.append(above)
    return np.stack(found)[..., :3]


def _unfiltered(form: int, line: np.ndarray, above: np.ndarray) -> np.ndarray:
    """A line of pixels by its filter: none, left, above, the mean of both, or Paeth's choice among three."""
    if form == 0:
        return line.copy()
    if form == 1:
        return np.cumsum(line, axis=0, dtype=np.uint8)
    if form == 2:
        return line + above
    made = np.zeros_like(line)
    left = np.zeros(line.shape[1], int)
    corner = np.zeros(line.shape[1], int)
    for place, (value, high) in enumerate(zip(line.astype(int), above.astype(int), strict=True)):
        guess = (left + high) // 2 if form == 3 else _paeth(left, high, corner)
        left = (value + guess) % 256
        corner = high
        made[place] = left
    return made


def _paeth(left: np.ndarray, above: np.ndarray, corner: np.ndarray) -> np.ndarray:
    """Of three neighbours the one that is nearest to left + above - corner."""
    far_left = abs(above - corner)
    far_above = abs(left - corner)
    far_corner = abs(left + above - 2 * corner)
    first = (far_left <= far_above) & (far_left <= far_corner)
    return np.where(first, left, np.where(far_above <= far_corner, above, corner))

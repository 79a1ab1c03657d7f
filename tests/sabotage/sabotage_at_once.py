"""Which kernels multiply at once, and why: all others have their products wait (`convc.machine.lazy`)."""

from __future__ import annotations

ELSEWHERE = {"A is no tile of a tensor"}
"""Some lanes of A were refreshed from another copy or moved by themselves, or A was stored by threads."""

AT_ONCE: dict[str, set[str]] = {
    "nvfp4, scaled": {"scale factors"},
    "mxfp8, groups": {"scale factors"},
    "mxfp8, one MMA a stage": {"scale factors"},
    "mxfp4, scaled": {"scale factors"},
    "golden scaled_nvfp4": {"scale factors"},
    "golden wgrad_bf16": {"MN-major"},
    "golden wgrad_accumulated_f16": {"MN-major"},
    "golden multicast_f16": ELSEWHERE,  # multicast copies are performed at once
    "clusters with many columns and few bytes": ELSEWHERE,  # the same
    "stationary": {"zero-column mask"},
    "stationary, full tiles": {"zero-column mask"},
    "stationary, requantised": {"zero-column mask"},
    "stationary, scaled": {"zero-column mask"},
    "stationary, residual past the edges": {"zero-column mask"},
    "stationary, mask past the edges": {"zero-column mask"},
    "slide, lines by tensor copies": ELSEWHERE,  # copies of the last turn are made by some CTAs only, at once
    "shift windows, lines by tensor copies": ELSEWHERE | {"B is no tile of a tensor"},
    "slide, persistent CTAs over masked tiles": {"some CTAs only, and A in tensor memory or a lane mask"},
    "CTAs that share tiles": {"copies of other CTAs"},  # one has a step more
    "a CTA pair": {"lane mask, and D is written anew"},
    "weight stationary": {"zero-column mask"},
    "shift and copy": ELSEWHERE | {"lane mask, and D is written anew"},
    "ashift": ELSEWHERE,
    "gluon_pairs": ELSEWHERE,
}
"""Kernels that are sabotaged."""

OTHERS: dict[str, set[str]] = {
    "gluon_pairs": ELSEWHERE,
    "matmul_bf16": {"MN-major"},
    "matmul_device_tma": {"copies of other CTAs"},
    "matmul_e4m3": {"MN-major"},
    "matmul_f16": {"MN-major"},
    "matmul_tf32": ELSEWHERE,
}
"""Kernels of other compilers."""

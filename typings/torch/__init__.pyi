"""What Triton's runtime asks of torch, where it runs on the CPU."""

from typing import Any

cpu: Any

def device(kind: str) -> Any: ...

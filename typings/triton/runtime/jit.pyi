from collections.abc import Callable
from typing import Any

class JITFunction:
    run: Callable[..., Any]

"""How fast convc is, measured against budgets: ``python -m benchmarks.run``."""

import os

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process that is measured compiles all that it imports anew

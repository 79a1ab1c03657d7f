"""How fast convc is, measured against budgets: ``python -m benchmarks.run``."""

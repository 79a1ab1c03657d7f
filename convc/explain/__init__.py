"""Explanations for ``convc inspect``: loop nests with their rewrites, lanes, schedules, plans, programs."""

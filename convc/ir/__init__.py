"""The records that rooms exchange: problems, types, launches, findings, integer expressions."""

"""The records that packages exchange: problems, types, launches, findings, integer expressions."""

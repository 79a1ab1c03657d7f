"""The steps of tile programs: one class for each act on whole tiles."""

"""The build folder on disk: what passes from compiling to running."""

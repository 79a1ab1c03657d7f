"""The time of a kernel and what it waits for: its trace, replayed on a model of the chip's resources.

The simulator executes the text and tells what happens; nothing here sees the planner. Every number of the model is a
parameter of a chip (`parameters`) with its unit, its source and how sure it is.
"""

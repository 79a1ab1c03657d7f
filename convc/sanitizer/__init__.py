"""Checkers: observers of one execution with a verdict.

They watch what the simulator does (`convc.machine.state.observer`) and say where a kernel relies on luck: an access
that nothing orders, a barrier used before it is visible, two CTAs that write the same bytes. An ``error`` comes with a
evidence: both accesses, who made them, and the lines.
"""

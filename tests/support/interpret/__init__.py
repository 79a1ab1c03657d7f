"""The meaning of the steps of a tile program, on whole tiles in numpy: the oracle between the plan and the text.

It knows nothing of PTX. If it agrees with the reference and the simulator does not, the fault is in a template or in
the machine; if it disagrees, in the plan or the schedule. A meaning is a function registered for a class of steps
(`support.interpret.meaning.perform`).
"""

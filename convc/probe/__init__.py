"""Probes: small kernels that settle on a GPU what the simulator and the model of a chip have to assume.

    module      what it does
    kernel      a probe's kernel: a frame (frames/*.ptx) with a few instructions in its middle
    probes      the two kinds of probes, and how an answer is understood
    scalar      probes of ordinary instructions, on Hopper too
    tensor      probes of the tensor core and of tensor memory
    copies      the probe of the tensor copy engine
    clocks      probes of a chip's numbers, by the clock of an SM
    all         every probe by name
    assumed     all that is assumed, and the probe of each
    perform     the probes on a GPU
    record      the file that comes from a GPU: written, and read as what a stranger sent
    settled     such a file as settings of switches and as parameters of a chip

A probe of a rule knows beforehand how each outcome looks, since the simulator runs it under every reading. An answer
that is none of these is unknown, and settles nothing.
"""

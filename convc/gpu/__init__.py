"""A launch on a real GPU: planned as data, performed through a small protocol of the driver, or written as C++.

    module        what it does
    tensormaps    a tensor map as a call of one of the driver's three encoders
    plan          a launch file as data: what to allocate, which bytes each parameter has
    contents      what a buffer holds before the launch: given, drawn from a seed, or poison
    driver        the protocol of the driver, as far as a launch needs it
    cuda          that protocol on NVIDIA's `cuda-bindings`, the only module that imports them
    clock         the clock of the SMs, measured by a small kernel
    perform       a plan is performed: load, allocate, encode, launch, wait, copy back, time, clean up
    result        what a launch gave, and how it compares with other buffers
    host_program  the same launch as a stand-alone program in C++

Nothing here knows of convolutions, or runs the simulator: that is the business of the verb (`convc.api`).
"""

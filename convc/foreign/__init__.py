"""Other compilers' traces beside their PTX: lines of source, types of arguments, folders of kernels.

Nothing here imports such a compiler: it reads texts and records, and makes the parameters of a launch from them.
"""

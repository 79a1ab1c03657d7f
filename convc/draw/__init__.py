"""Pictures as SVG text: layouts of operands, bit fields of descriptors, and what a kernel's tiles, memory and time are.

Each is drawn from what the compiler, the simulator or the timing engine holds, none from a description of its own.
"""

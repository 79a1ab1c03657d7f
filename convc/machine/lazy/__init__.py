"""Copies and products that are noted when they are issued, and performed when their result is looked at.

Most bytes of a convolution go from global memory through shared memory into one product and nowhere else. Here a tensor
copy is kept as the rows of a tensor that it moves (`regions`), an operand of a product as the rows that its descriptor
names (`rows`), and products wait until their accumulator is looked at (`deferral`); then their distinct tiles are
gathered from global memory once, over the joint K of all that waited (`tiles`, `evaluate`). Without it the layers of
ResNet-50 take 2.1 times as long, kernels of clusters 1.8 times.

What anybody can see stays as it is without this package, which is its oracle: barriers, counters, marks of what was
written, findings and faults happen at issue, and everything that reads or writes shared memory, tensor memory or a
buffer that a map names has what waits performed first. Sums of whole numbers are exact in any order while they stay
below 2^24; others may be rounded in another order, which the simulator leaves open in any case.
"""

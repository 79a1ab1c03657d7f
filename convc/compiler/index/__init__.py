"""Where every byte of a convolution comes from and goes to, as algebra.

`conv.conv_maps` derives the index maps of one tiled convolution and proves what the kernel relies on; `lower`
turns a finished map into integer expressions (`convc.ir.expr`), and that is the last the compiler sees of
the algebra.
"""

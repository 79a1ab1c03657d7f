"""Schedules derived from the definition of convolution, once for all sizes, in sympy.

Extents, tiles, strides, dilations and pads are symbols here (`symbols`). A schedule is a chain of named changes of a
loop nest (`rewrites`, `forms`); each has its theorem (`theorem`), an identity of whole numbers that `algebra` shows
under conditions on the sizes. What a kernel computes is read off the last nest (`kernels`), and kept in
``derived.json`` (`write`), so that compiling does not need sympy: `convc.compiler.index.formulas` puts the numbers of
a problem in.
"""

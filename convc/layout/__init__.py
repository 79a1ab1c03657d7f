"""CuTe layouts: shapes with strides, nested, as functions from coordinates to offsets, and their algebra.

    from convc.layout import Layout, logical_divide, parse
    accumulator = parse("((4,8),(2,2)):((32,1),(16,8))")
    accumulator(5, 1)                          # the offset of thread 5 and value 1
    str(logical_divide(Layout((16, 8)), (4, 4)))    # ((4,4),(4,2)):((1,4),(16,64))

Operations have the names and the postconditions of CuTe's documentation ("CuTe Layout Algebra"), which the tests check
on every index. What does not meet its conditions is refused with the layout, the mode and what was expected. Extents
and strides may be expressions of sympy; what cannot be decided about them is refused by name.
"""

from convc.layout.algebra import coalesce, complement, composition, left_inverse, recast, right_inverse
from convc.layout.division import flat_divide, logical_divide, tiled_divide, zipped_divide
from convc.layout.layouts import Layout
from convc.layout.notation import parse
from convc.layout.products import (
    blocked_product,
    flat_product,
    logical_product,
    raked_product,
    tiled_product,
    zipped_product,
)
from convc.layout.swizzled import Composed, Swizzle

__all__ = [
    "Composed",
    "Layout",
    "Swizzle",
    "blocked_product",
    "coalesce",
    "complement",
    "composition",
    "flat_divide",
    "flat_product",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "parse",
    "raked_product",
    "recast",
    "right_inverse",
    "tiled_divide",
    "tiled_product",
    "zipped_divide",
    "zipped_product",
]

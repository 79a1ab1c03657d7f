"""Names of Gluon's language, which only compiled text uses."""


class NVMMASharedLayout:
    """A layout of shared memory."""

    def __init__(self, swizzle_byte_width, element_bitwidth):
        self.swizzle_byte_width = swizzle_byte_width
        self.element_bitwidth = element_bitwidth

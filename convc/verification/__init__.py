"""Whether a compiled convolution is right: reference, data, bounds, comparison, of layers and of networks."""

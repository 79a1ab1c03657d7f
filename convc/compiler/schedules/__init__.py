"""Each way to run a convolution: what it can do, what it costs, and its roles."""

"""The judge: data to run a convolution on, how far a right answer may be off, and the comparison."""

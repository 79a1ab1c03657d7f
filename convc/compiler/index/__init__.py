"""Where every byte of a convolution comes from and goes to: what was derived for all sizes, with numbers put in."""

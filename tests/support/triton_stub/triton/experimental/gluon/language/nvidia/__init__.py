"""What Gluon has for NVIDIA."""

"""What a host needs of Gluon for NVIDIA."""

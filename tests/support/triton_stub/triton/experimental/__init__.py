"""What Triton tries out."""

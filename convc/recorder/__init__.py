"""Host programs without a GPU: CUDA's libraries stood in for, and every launch run on the simulator."""

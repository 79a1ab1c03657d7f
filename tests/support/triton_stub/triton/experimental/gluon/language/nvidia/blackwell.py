"""Names for Blackwell."""

TensorMemoryLayout = allocate_tensor_memory = tcgen05_mma = None

"""What the host does to a problem and its arrays so that TMA and the tensor core can take them, and back."""

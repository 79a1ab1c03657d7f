"""The tensor core of Blackwell: tcgen05."""

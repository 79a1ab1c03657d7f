"""Outside programs that convc can call, and that it never needs."""

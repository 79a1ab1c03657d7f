"""The tensor core of a target as a schedule needs it: who multiplies, who gives stages back, who reads the sums."""

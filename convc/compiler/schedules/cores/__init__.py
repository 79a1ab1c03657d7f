"""The tensor core of a target, as a schedule needs it: who multiplies, how a stage is given back, who reads the sums."""

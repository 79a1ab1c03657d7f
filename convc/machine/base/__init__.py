"""What every part of the simulator leans on: values, switches, swizzles, completion, ranks in a cluster."""

"""What every part of the machine leans on: values, switches, swizzles, completion, ranks in a cluster."""

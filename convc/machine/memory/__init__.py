"""Global and shared memory, mbarriers, groups of copies."""

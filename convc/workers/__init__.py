"""Many pieces of work at once: in processes of this machine or on a cluster, none of them lost."""

"""The tensor core of Hopper: wgmma, and the registers that warpgroups trade (sm_90a)."""

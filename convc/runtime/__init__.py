"""Running what was compiled: host repacking around one launch of the simulator."""

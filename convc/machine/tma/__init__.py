"""The tensor memory accelerator: tensor maps, walks, loads, stores, reductions."""

"""The emit room: a tile program becomes PTX text, one template a step."""

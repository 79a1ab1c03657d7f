"""The emit package: a tile program becomes PTX text, one template a step."""

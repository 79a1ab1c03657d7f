"""Barriers, mbarriers, fences, clusters, control flow."""

"""Shuffles, votes, matrices held by a warp."""

"""What runs: strands, cohorts of CTAs, what they count and who watches them."""

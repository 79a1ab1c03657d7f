"""Features of a launch, which any schedule may have: each a change of its steps and of its grid."""

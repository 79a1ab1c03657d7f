"""The choice of tiling, storage and launch, with the reasons (entry: `convc.compiler.planner.search.plan`)."""

"""The choice of tiling, storage and launch, with the reasons (entry: `convc.compiler.schedules.planner.plan`)."""

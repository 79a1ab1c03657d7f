"""Which tiling, which storage, which launch, and why not another (entry: `convc.compiler.schedules.planner.plan`)."""

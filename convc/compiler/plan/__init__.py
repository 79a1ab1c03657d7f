"""Which tiling, which storage, which launch, and why not another (entry: `convc.compiler.plan.planner.plan`)."""

"""The plan room: which tiling, which storage, which launch, and why not another (entry: `convc.plan.planner.plan`)."""

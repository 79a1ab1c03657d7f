"""The planner: candidates of all schedules in, one plan out (entry: `convc.compiler.planner.search.plan`)."""

"""A problem goes in, a kernel comes out: index maps, plan, tile program, text (entry: `convc.compiler.compile`)."""

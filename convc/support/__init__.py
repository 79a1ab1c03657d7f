"""What any program needs and no package owns: files, memory limits, packaged resources, the assembler."""

"""What any program needs and no room owns: files, memory limits, packaged resources, the assembler."""

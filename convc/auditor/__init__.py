"""The auditor: a kernel's text is read against the PTX manual, without data and without running it.

Start at `convc.auditor.run.audit_kernel`. The control flow of every warp of a cluster is walked with the values that
are known from the text and the launch file (`warp`, `program`); what it does to barriers, memory and tensor memory is
kept as who knows of what (`clocks`, `barriers`, `shadow`), and each instruction is held against the rules of the manual
(`rules`, `effects`). What cannot be followed is said to be so, and accused of nothing. This package is written from the
manual, and shares no code with the compiler that emits kernels nor with the simulator that runs them.
"""

"""A report for a browser: one HTML file with everything that is known about some layers, and nothing from a network.

Start at `render.page_html`. Pictures are those of `convc.draw`; numbers come from the plan, the tile program, the lane
tables and the timing engine.
"""

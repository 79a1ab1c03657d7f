"""From a step to the names and numbers of its template."""

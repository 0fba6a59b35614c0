"""Label Studio: the port, the stored links, and how tasks, annotations and crowd work pass through it."""

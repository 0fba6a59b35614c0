"""Which texts are new: one measure of similarity, an index of known texts, and the decision on every example."""

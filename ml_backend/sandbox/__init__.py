"""A sandbox for programs that answer for models of strangers: no network, no other files, limited resources."""

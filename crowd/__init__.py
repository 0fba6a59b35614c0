"""The port to crowd marketplaces: the Crowd protocol, its data types and errors, and the profile of a kind of crowd."""

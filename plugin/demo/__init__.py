"""The demo: every part of Outfox on this machine, with the sentiment task in it."""

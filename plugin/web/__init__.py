"""The web app: what `outfox serve` runs."""

"""Archives: closed rounds split, frozen, proven and read."""

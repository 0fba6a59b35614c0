"""The loop: what a round needs and waits for, how it moves on, and a task at a glance."""

"""The leaderboard in the web app: pages for browsers, JSON for programs, and files."""

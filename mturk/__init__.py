"""mturk pays and recruits: the crowd in our words, a marketplace's client, and a marketplace of our own."""

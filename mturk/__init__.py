"""mturk pays and recruits: what crowd work costs on a marketplace that speaks MTurk's protocol."""

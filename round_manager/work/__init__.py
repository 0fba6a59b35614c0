"""Workers' pages: who gets what to do, what they ask the model and submit, and whether all of it is done."""

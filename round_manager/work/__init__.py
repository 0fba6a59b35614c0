"""Workers' pages: who gets what to do, what they try and hand in, and whether all of it is done."""

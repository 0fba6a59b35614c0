"""Published data as archives: read in the form that it has, checked row by row, and written without a database."""

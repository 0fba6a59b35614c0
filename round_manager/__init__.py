"""round_manager decides: tasks, rounds, examples, votes, money owed, training, rotation, metrics, archives."""

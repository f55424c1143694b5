"""What decisions by probabilities cost, and what remains when only sure rows are decided."""

"""What decisions by probabilities cost.

``cost_matrix`` reads costs for the metrics here and for :mod:`skcal.decisions`.
"""

"""Proper scores, what they are made of, and metrics and scorers by name.

``rows`` has the scores of single rows, ``proper`` their means, ``by_name`` finds either.
``skill`` and ``decomposition`` compare them with those of base rates and of ``recalibrated``
probabilities. ``scorers`` are for scikit-learn's searches.
"""

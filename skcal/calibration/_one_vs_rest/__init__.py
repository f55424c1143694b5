"""Maps of one probability: the second class of two, or each class against the rest.

``log_odds`` leads from the scores of all classes to log-odds of each and back, and ``base``
holds what the maps derive from: one curve per class, and its shrinkage towards temperature
scaling. One map in each of the other files; ``any_calibrator`` makes one of a given calibrator.
"""

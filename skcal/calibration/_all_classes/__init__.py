"""Maps of all classes' scores at once, one in each file.

``vector``, ``matrix`` and ``structured`` derive from ``affine_scaling``.
"""

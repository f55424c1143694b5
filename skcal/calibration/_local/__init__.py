"""Maps that differ from region to region of the features, and what they are made of.

- ``base``: features beside scores, and the choice between a local map and a temperature
- ``quantizer``, ``additive``, ``indexed_dirichlet``, ``quantized_head``: the parts of
- ``vq_dirichlet``: regions composed of codewords
- ``trees``, ``tree_boosting``, ``lightgbm_trees``, ``boosted_rounds``: the parts of
- ``multicalibration``: rounds of boosting on features and scores
- ``standard``, ``kernel_sums``: columns on one scale, and sums over neighbours, the parts of both
- ``projection``, ``kernel_vote``; ``kernel``: the labels of the rows around
- ``confidence_maps``; ``proximity``: how near other rows are
- ``temperature_network``; ``local_temperature``: a temperature for each row
- ``calibration_network``; ``lcn``: agreement with the class frequencies around each row
"""

"""Maps that differ from region to region of the features, and what they are made of.

- ``base``: features beside scores, and the choice between a local map and a temperature
- ``quantizer``, ``additive``, ``indexed_dirichlet``, ``quantized_head``: the parts of
- ``vq_dirichlet``: regions composed of codewords
"""

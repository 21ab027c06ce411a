"""HyPar (Song et al., HPCA 2019), computed anew: its data are ``../hypar.yaml``.

``cases``      networks, splits, words and the formula of time
``simulated``  the same through the array simulator, in the settings that figures are compared with; energy
``figures``    Figures 5 to 10
``arrays``     Figures 11 to 13
``stated``     what stands outside of them: sums of the results, setup, Tables 1 to 3, worked examples
``pictures``   the figures in the paper's own form
"""

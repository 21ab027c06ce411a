"""What prediction and zero-skipping save on links, measured on networks that are trained here on real images.

``networks``  images, networks and their training
``layers``    their Winograd layers: tiles, products, neurons and errors of a batch
``gathers``   bits of gathers: all, MPT's quantiser, the block code, and what an oracle would send
``scatters``  bits of scatters, forward and backward, and of gathers on the way back
``drops``     random and adversarial tiles, none of whose live neurons may be found dead
"""

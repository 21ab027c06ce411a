"""MPT (Zhang et al., MICRO 2018): its layers and networks on groups and clusters, computed anew."""

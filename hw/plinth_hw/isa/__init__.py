"""The contract that hardware and software share: formats, descriptors, registers, presets."""

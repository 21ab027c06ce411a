"""Profiles of platforms: what basic operations and transfers cost on a device, by measurement, and which local networks
fit it, after Deep3 (section 4)."""

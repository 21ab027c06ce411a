"""Projection of streams of samples onto few of them, after Deep3 (section 6)."""

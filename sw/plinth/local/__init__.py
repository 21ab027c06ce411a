"""Local networks of a global one, and the coordinator that trains it by them, after Deep3 (section 5)."""

"""A Plan on an array as input of the array simulator, and what comes out for eyes."""

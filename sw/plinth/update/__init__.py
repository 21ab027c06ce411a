"""Update rules: the forms that descriptors and references share, and the numbers that dies are given."""

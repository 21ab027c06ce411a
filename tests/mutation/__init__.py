"""Mutation runs, ``make mutate``: small changes are made to the code, and the tests of its room must notice.

``rooms`` says which code and which tests; ``mutants`` finds the changes and draws a sample; ``sandbox`` holds a copy
of the tree and runs pytest there, with ``plugin`` in it; ``reach`` measures which tests enter which functions;
``campaign`` judges mutants, ``equivalent.yaml`` lists those that no test can kill; ``__main__`` is the command.
"""

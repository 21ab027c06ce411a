"""What the command line and Python programs have in common: from what somebody asks for to a plan, a step, a run.

::

    choices     networks, arrays and update rules, by name, by file, or as objects; the defaults of the rest
"""

"""Make plans, simulated steps and training runs of what somebody asks for, for the command line and for Python programs
alike.

::

    choices      networks, arrays and update rules that were asked for, and the defaults of the rest
    jobs         the same of a whole training run
    splits       a network's plan
    steps        a plan without what it costs, the array that it is used on, its simulated step
                 -- so far for the command line as well; from here on for ``import plinth`` --
    arguments    refuses arguments that nothing can mean; says messages in the library's words
    progress     a callback, a bar, or silence
    html         results in a notebook
    results      what all results have in common
    objects      network(), array(), verilog()
    planning     plan(), load_plan()
    simulating   simulate()
    training     train()
"""

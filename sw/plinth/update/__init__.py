"""Update rules (optimisers), a file each: how gradients change weights, and which state is kept from step to step.

======================== ==============================================================================================
:mod:`.law`              the interface of rules, and the hyperparameters that they have
:mod:`.sgd`, :mod:`.momentum`, :mod:`.adagrad`, :mod:`.adagrad_printed`, :mod:`.rmsprop`
                         the rules
:mod:`.kinds`            the rules by name
:mod:`.rule`             a rule with its hyperparameters, as steps, references and checkpoints have it
:mod:`.numbers`          which of these a memory format holds
======================== ==============================================================================================

A new rule is a file and a line of :mod:`.kinds`; with a number of its own also an entry of
:data:`~plinth.update.law.NUMBERS`, a field of :class:`~plinth.update.rule.UpdateRule` and an argument of
:func:`plinth.train`.
"""

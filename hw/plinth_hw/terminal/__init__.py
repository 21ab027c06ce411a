"""How programs of all rooms meet the people and systems that run them.

- :mod:`~plinth_hw.terminal.streams`: standard output and error that no text and no system can break.
- :mod:`~plinth_hw.terminal.program`: the frame around a program: what failures and signals end in.
  :mod:`~plinth_hw.terminal.commands` lets interruptions past click.
- :mod:`~plinth_hw.terminal.options`: what may be typed for files, folders, names and numbers.
- :mod:`~plinth_hw.terminal.files`: files that are whole or as they were.
- :mod:`~plinth_hw.terminal.activity`: tells on standard error what takes long, as a bar or as lines.
- :mod:`~plinth_hw.terminal.table`: tables whose numbers are never cut.

Software uses it as well: it knows nothing of hardware, and stands here since imports run down only.
"""

"""The host bridge: register accesses of a host over a serial line.

In the order in which bytes pass::

    uart.py      pins to bytes and back, 8N1
    requests.py  bytes to the words of checked frames, in a ring of block RAM
    bridge.py    requests to AXI4-Lite accesses and answers; the room's top
    answers.py   words to frames as they go over the line, kept until they are acknowledged, and sent
    top.py       a die with a bridge in front

What the frames hold is declared in :mod:`plinth_hw.isa.frames`; docs/host.md has the protocol.
"""

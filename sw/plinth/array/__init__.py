"""Arrays of dies.

``array`` has dies and links, some by name, ``topologies`` which links join them, ``routes`` where packets go,
``deadlock`` the proof that they cannot wait for each other, ``host`` what hosts do in dies' places, ``file`` their
YAML.
"""

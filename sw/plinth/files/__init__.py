"""Files of others, read as untrusted: YAML and JSON (``documents``), arrays (``npz``), and the forms of settings in
them (``forms``). Reports: names of their fields (``fields``), and their kinds, versions and schemas (``reports``)."""

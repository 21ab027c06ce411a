"""Files of others, read as untrusted: YAML, arrays, and the forms of settings in them."""

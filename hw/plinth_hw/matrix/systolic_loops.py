def text(a, b): return ""

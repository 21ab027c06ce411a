"""Arrays of dies: links and what they cost, routes, the proof that traffic cannot deadlock, files."""

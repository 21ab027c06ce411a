"""Published evaluations computed anew, beside what the papers print."""

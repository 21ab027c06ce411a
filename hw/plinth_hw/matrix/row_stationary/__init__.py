"""Row-stationary machine: convolution rows in processing elements, sums down a chain of rows."""

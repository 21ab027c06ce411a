"""Row-stationary machine: convolution rows in processing elements, psums down a chain of rows."""

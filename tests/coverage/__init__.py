"""What of a die's Verilog the regression runs: ``make coverage``."""

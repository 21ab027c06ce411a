"""Drivers, monitors and runners that the tests share."""

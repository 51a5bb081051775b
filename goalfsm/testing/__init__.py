"""What goalfsm is tested with, for its users to test themselves with."""

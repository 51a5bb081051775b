"""goalfsm: explicit state machines for goal lifecycles."""

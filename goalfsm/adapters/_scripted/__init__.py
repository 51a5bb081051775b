"""The parts of the scripted app-server; `goalfsm.adapters._server` puts them together."""

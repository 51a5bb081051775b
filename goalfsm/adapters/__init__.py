"""Adapters: each translates one provider and decides nothing."""

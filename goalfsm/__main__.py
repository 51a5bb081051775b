"""`python -m goalfsm` is the same as `goalfsm`."""

from goalfsm.cli import main

if __name__ == "__main__":
    main(prog_name="goalfsm")

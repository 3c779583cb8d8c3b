"""`python -m dis_command` is `dis`."""

from dis_command.start import main

if __name__ == "__main__":
    main()

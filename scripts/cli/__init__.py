"""The command `stagecraft`: a file per verb, each with a function of its name, whose docstring is its help."""

"""The verbs of the command line, one thin module each. Whatever is heavy is imported inside the verb that needs it."""

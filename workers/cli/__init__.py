"""The subcommands of `rotulus`, each a module of its own, imported when it is called."""

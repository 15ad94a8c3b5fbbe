"""The command line behind scripts/build-exact-kernel."""

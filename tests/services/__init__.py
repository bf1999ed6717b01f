"""Real servers for the tests: child processes in folders of their own, gone when the tests are."""

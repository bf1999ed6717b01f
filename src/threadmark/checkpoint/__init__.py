"""Where threads are kept: the saver contract, and the savers that come with the core."""

"""Where Threadmark meets its peer: savers for its graphs, readers of its databases."""

"""What the SQL savers share."""

"""``threadmark demo``: a durable graph at work on the Python packages of this machine.

Start reading in ``graph.py``. What surrounds it: ``packages.py`` finds and measures packages, ``licences.py`` names
their licences, ``census.py`` draws conclusions, ``markdown.py``, ``html.py`` and ``picture.py`` write them down.
"""

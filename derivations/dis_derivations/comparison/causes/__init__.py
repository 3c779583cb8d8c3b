"""Why two runs may differ: what differs upstream of them, from evidence and from declarations."""

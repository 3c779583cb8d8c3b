"""How content gets in: written in private, hashed on the way, registered in one step."""

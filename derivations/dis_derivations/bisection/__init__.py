"""Finding by experiment which upstream difference makes the outputs of two runs part."""

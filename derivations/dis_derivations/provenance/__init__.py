"""Why an object is there: what refers to it, which roots keep it, what a closure is made of."""

"""The small models that ship with the project, whose values are planted, so that what is found can be checked."""

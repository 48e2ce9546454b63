"""The vocabulary: the words of Cloister as plain frozen types.

Nothing here does I/O, starts anything or knows an interpreter. A module may import the standard library and,
where stored or received JSON is read, pydantic. Everything else in the project imports from here.
"""

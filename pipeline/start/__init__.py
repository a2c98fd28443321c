"""`taskmix init`: a config and a net for a folder of annotated photos.

finding.py   which of the known formats lie there, and where their photos are
writing.py   the two files, and the schemas
"""

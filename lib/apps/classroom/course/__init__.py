"""The notebooks as a course: their exercises, the students' copies and the answer key, and a
folder for a class.
"""

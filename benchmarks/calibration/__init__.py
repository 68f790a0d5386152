"""Calibration: what do estimators find in many small models whose values are planted? (notebook
00)
"""

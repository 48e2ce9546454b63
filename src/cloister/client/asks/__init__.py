"""The routes, one module for each noun: functions that say what to ask, with what an answer is read as.

Each is called by both clients under the same name. Nothing here is sent.
"""

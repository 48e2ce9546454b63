"""The smallest use: one program, run sealed, and its value. Nothing to start, nothing to configure.

Run it: python examples/01_hello.py
"""

from cloister import run_sync

PROGRAM = """
words = text.split()
print(f"{len(words)} words came in")
{"words": len(words), "longest": max(words, key=len)}
"""

result = run_sync(PROGRAM, inputs={"text": "a program that waits costs nothing"})

print("status:", result.status.value)
print("it printed:", result.stdout.strip())
print("its value:", result.result)

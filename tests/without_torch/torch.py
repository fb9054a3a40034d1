"""What `import torch` means in a program that a quick test starts; see tests/quick.py."""

raise ImportError("quick tests run without torch; a test that needs it is marked `slow`")

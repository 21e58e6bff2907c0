"""`python -m workers …` with the plug-in of a folder, whose name is in PLUGIN_FOLDER.

A forked process has its parent's path, so PYTHONPATH comes too late for it.
"""

import os
import runpy
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.environ["PLUGIN_FOLDER"])
    runpy.run_module("workers", run_name="__main__", alter_sys=True)

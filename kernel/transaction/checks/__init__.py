"""The ordered checks through which every envelope passes, a file for each subject (§2.2)."""

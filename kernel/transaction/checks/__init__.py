"""The ordered checks through which every envelope passes, one small file each (§2.2)."""

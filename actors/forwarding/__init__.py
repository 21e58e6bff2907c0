"""A message whose session lives on another gateway: sent there, answered back."""

"""The records that each effect kind writes; `appliers.EffectRules.apply` alone writes them."""

"""What would happen if: a dry run, its preview, and the receipts of having asked (§11)."""

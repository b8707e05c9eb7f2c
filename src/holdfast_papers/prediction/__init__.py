"""Paper 004: prediction of reliability."""

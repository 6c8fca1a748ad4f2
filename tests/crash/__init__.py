"""What happens to the journal when disks, power and processes fail."""

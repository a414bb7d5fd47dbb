"""What commands share: how they reach the database, print, fail and give up."""

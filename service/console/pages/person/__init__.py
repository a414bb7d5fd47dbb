"""What belongs to the person alone: settings, keys, invitations and the account."""

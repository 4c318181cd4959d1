"""What each command does, one file each: they put the rooms together and end the program; they show nothing."""

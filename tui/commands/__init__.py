"""What each command does, one file each. They put the rooms together and end the program; they show nothing themselves."""

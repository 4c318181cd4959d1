"""What things are called on the screen: a sign and a word each, and sentences made of them."""

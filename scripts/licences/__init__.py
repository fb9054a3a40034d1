"""What the project knows about licences: what an expression permits, and which licence a text declares."""

"""What the doctor looks at, one subject a file; nothing here changes anything."""

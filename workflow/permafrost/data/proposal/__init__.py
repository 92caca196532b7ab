"""Draft an entry for your own files: inspects their content, and asks for what they mean. No job imports this."""

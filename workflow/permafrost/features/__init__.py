"""Run a backbone over image stores, and write feature stores."""

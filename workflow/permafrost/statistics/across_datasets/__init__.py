"""What several datasets or seeds say together: means, ranks, and candidates that none beats."""

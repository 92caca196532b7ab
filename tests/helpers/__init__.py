"""What the tests share: a small project, made-up data, and results in the shape that the stages write."""

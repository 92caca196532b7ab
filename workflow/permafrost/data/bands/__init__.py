"""The bands of images: names, sensors, units and statistics."""

"""Parts of the page as plain values, one module each; the template only arranges them."""

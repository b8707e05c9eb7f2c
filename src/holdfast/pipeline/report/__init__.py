"""An audit as a page to look at: one HTML file, its charts and pictures drawn as SVG."""

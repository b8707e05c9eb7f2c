"""Line charts as SVG, for sweeps and studies; their axes also for the report."""

"""From the checked values of the file to a network: one file per part. Each adds what is wrong to the same problems."""

"""What a thing is: values, events, messages between nodes, errors. Imports nothing else of ours."""

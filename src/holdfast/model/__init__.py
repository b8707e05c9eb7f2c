"""What a thing is: values, events, errors. Imports nothing else of ours."""

"""Result tables in the formats that other people's engines query."""

"""What is computed: sequences, scorings, the recurrence, boundary values, and how the matrix is cut."""

"""Exact pruning: which parts of the matrix no optimal path can meet, known before they are swept."""

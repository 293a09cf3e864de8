"""The recommender: usage samples in, recommendations out."""

"""What our web servers share, the review page and served predictions: the guard, responses, addresses."""

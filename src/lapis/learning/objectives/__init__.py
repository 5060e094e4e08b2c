"""What learners climb: value, gradient and curvature at some weights."""

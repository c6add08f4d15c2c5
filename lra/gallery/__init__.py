"""Pictures of what variants mix, and contact sheets of what tasks ask."""

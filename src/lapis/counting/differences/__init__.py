"""What each ground atom changes in the counts, in classes of equal differences."""

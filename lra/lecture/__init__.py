"""The lecture that this project grew out of, claim by claim: measurements, verdicts and the page `docs/lecture.md`."""

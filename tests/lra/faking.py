"""A supervisor with fake children, for what a bench does whatever its children do."""

from pathlib import Path
from typing import Any

from lra.supervise import Supervisor


class Faking(Supervisor):
    """Its training children behave as told, one after the other; its speed cells are measured at once."""

    def __init__(self, *behaviours: str) -> None:
        super().__init__()
        self.behaviours, self.started = list(behaviours), 0

    def run_child(self, module: str, folder: Path, **keywords: Any) -> Any:
        """Runs the fake in the place of `module`."""
        training = module == "lra.train"
        self.started += training
        tell(folder, self.behaviours.pop(0) if training else "measured")
        return super().run_child("tests.lra.fake_child", folder, **keywords)


def tell(folder: Path, behaviour: str) -> Path:
    """Says what the next child in `folder` does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "behaviour").write_text(behaviour)
    return folder

"""What this process was given with each session that it owns: to be shown with every write."""

from cloister.ports.rows import Fence


class Fences:
    def __init__(self) -> None:
        self._held: dict[str, Fence] = {}

    def hold(self, fence: Fence) -> None:
        self._held[fence.session_id] = fence

    def get(self, session_id: str) -> Fence | None:
        return self._held.get(session_id)

    def drop(self, session_id: str) -> None:
        self._held.pop(session_id, None)

    def __len__(self) -> int:
        return len(self._held)

"""Which worker this process is: the variables of torchrun, which the launcher here sets too."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asr_parallel.log import UserError

if TYPE_CHECKING:
    from asr_parallel.parallel.comm import Comm


@dataclass(frozen=True)
class Place:
    """Rank ``rank`` of ``size`` (``local_rank`` of ``local_size`` on its machine), and where the common store is.

    ``store_is_there`` tells that a launcher serves the store already; otherwise rank 0 does.  ``run`` keeps
    the entries of one start apart from those of another in the same store.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    store_is_there: bool = False
    run: str = "0"
    comm: Comm | None = None  # of a simulated worker

    @classmethod
    def from_environment(cls) -> Place | None:
        """What a launcher has said, or None when there is none."""
        e = os.environ
        if "RANK" not in e:
            return None
        try:
            return cls(
                int(e["RANK"]),
                int(e["WORLD_SIZE"]),
                int(e.get("LOCAL_RANK", 0)),
                int(e.get("LOCAL_WORLD_SIZE", e["WORLD_SIZE"])),
                e["MASTER_ADDR"],
                int(e["MASTER_PORT"]),
                e.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
                "asr_parallel/" + e.get("TORCHELASTIC_RESTART_COUNT", "0"),
            )
        except KeyError as missing:
            raise UserError(f"RANK is set but {missing.args[0]} is not: start with torchrun, or unset RANK") from None
        except ValueError as error:
            raise UserError(
                f"RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and MASTER_PORT must be numbers ({error})"
            ) from None

    def environment(self) -> dict[str, str]:
        """The variables that ``from_environment`` reads."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_size),
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(self.port),
            "TORCHELASTIC_USE_AGENT_STORE": str(self.store_is_there),
        }

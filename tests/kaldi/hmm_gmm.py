"""The other side of the tests, in a process of its own: kaldi-hmm-gmm, whose transition models are Kaldi's code.

``python hmm_gmm.py REQUEST.json``: a request has a ``topo``, ``sets`` of phones that share their pdfs, a folder
``out``, and ``utts``: the (phone, state) of each frame.  Leaves ``final.mdl`` (text) and ``meaning.json`` there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path


def ask(out: Path, topo: str, sets: list[list[int]], utts: dict[str, list[list[int]]] | None = None) -> dict:
    """What transition ids mean, and those of ``utts``, by kaldi-hmm-gmm."""
    request = out / "request.json"
    request.write_text(json.dumps({"topo": topo, "sets": sets, "utts": utts or {}, "out": str(out)}))
    subprocess.run([sys.executable, __file__, str(request)], check=True, timeout=120)
    return json.loads((out / "meaning.json").read_text())


def main() -> None:
    import kaldi_hmm_gmm as k

    request = json.loads(Path(sys.argv[1]).read_text())
    topo = k.HmmTopology()
    topo.read(request["topo"])
    tree = k.monophone_context_dependency_shared(request["sets"], topo.get_phone_to_num_pdf_classes())
    model = k.TransitionModel(tree, topo)
    out = Path(request["out"])
    (out / "final.mdl").write_text(str(model))
    ids = range(1, model.num_transition_ids + 1)
    meaning = {
        "pdfs": [model.transition_id_to_pdf(i) for i in ids],
        "phones": [model.transition_id_to_phone(i) for i in ids],
        "states": [places(model)[model.id2state[i] - 1][1] for i in ids],
        "loops": [model.is_self_loop(i) for i in ids],
        "num_pdfs": model.num_pdfs,
        "utts": {utt: transitions(model, topo, states) for utt, states in request["utts"].items()},
    }
    (out / "meaning.json").write_text(json.dumps(meaning))


def places(model) -> list[tuple[int, int]]:
    """The phone and HMM state of each transition state, which only their text form tells."""
    return [tuple(map(int, re.findall(r"(?:phone|hmm_state)=(\d+)", str(t)))) for t in model.tuples]


def transitions(model, topo, states) -> list[int]:
    """The transition id of each frame: from its HMM state to that of the next frame, or out of the phone."""
    number = {place: i for i, place in enumerate(places(model), 1)}
    ids = []
    for (phone, state), (after, then) in zip(states, [*states[1:], (0, 0)]):
        entry = topo.topology_for_phone(phone)
        arcs = [to for to, _ in entry[state].transitions]
        index = arcs.index(then) if after == phone and then in arcs else arcs.index(len(entry) - 1)
        ids.append(model.state2id[number[phone, state]] + index)
    return ids


if __name__ == "__main__":
    main()

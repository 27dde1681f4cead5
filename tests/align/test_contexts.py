import numpy as np
from gmm_world import PHONES, monophones, write_lang

from asr_parallel.align.contexts import contexts, equal_alignment, labelled, relabel
from asr_parallel.align.hmm import HmmModel
from asr_parallel.align.tree import ContextTree
from asr_parallel.decode.utterance_graph import TrainingGraphs

A, B, C, D = (PHONES.index(p) for p in "ABCD")


def test_contexts_name_the_neighbours():
    hmm = monophones()
    says = [(1, [0, 2, 4]), (A, [0, 0, 1, 2]), (B, [0, 1, 2]), (B, [0, 1, 2])]
    pdfs = np.array([hmm.tree.pdf(0, p, 0, s) for p, states in says for s in states], np.int32)
    # two utterances, and one without frames between them
    context = contexts(hmm, np.concatenate([pdfs, pdfs[:7]]), np.array([0, 13, 13, 20]))
    first = [[0, 1, A]] * 3 + [[1, A, B]] * 4 + [[A, B, B]] * 3 + [[B, B, 0]] * 3
    assert context[:13, :3].tolist() == first
    assert context[13:, :3].tolist() == [[0, 1, A]] * 3 + [[1, A, 0]] * 4
    assert context[:7, 3].tolist() == [0, 2, 4, 0, 0, 1, 2]


def test_relabel_asks_the_tree():
    hmm = monophones()
    number = iter(range(100))
    roots = [
        [[0, 0, next(number), next(number)] if (p, s) == (A, 1) else next(number) for s in range(len(states))]
        for p, states in enumerate(hmm.topology.states)
    ]
    tri = HmmModel.start(hmm.phones, hmm.silence, hmm.topology, ContextTree(3, roots, [[B]]))
    context = np.array([[B, A, 0, 1], [C, A, 0, 1], [B, A, 0, 2], [B, A, 0, 1], [0, 1, 0, 3]])
    assert relabel(tri, context).tolist() == [tri.tree.pdf(*c) for c in context.tolist()]
    assert len(set(relabel(tri, context).tolist())) == 4


def test_labelled_leaves_out_what_has_no_label():
    pdfs, offsets = labelled(np.array([3, 4, -1, -1, 5]), np.array([0, 2, 4, 5]))
    assert pdfs.tolist() == [3, 4, 5]
    assert offsets.tolist() == [0, 2, 2, 3]


def test_equal_alignment_gives_each_state_its_share(tmp_path):
    graphs = TrainingGraphs(write_lang(tmp_path), monophones())
    states = 5 + 3 + 3 + 5
    pdfs = equal_alignment(graphs, ["DA"], 2 * states)
    tree = graphs.hmm.tree
    phones = [1] * 10 + [D] * 6 + [A] * 6 + [1] * 10
    assert tree.pdf_phone[pdfs].tolist() == phones
    assert np.bincount(pdfs)[np.unique(pdfs)].tolist() == [4] * 5 + [2] * 6
    assert (equal_alignment(graphs, ["DA"], states - 1) == -1).all()
    assert tree.pdf_phone[equal_alignment(graphs, ["QUX"], 40)].tolist().count(2) > 10  # unknown: spoken noise

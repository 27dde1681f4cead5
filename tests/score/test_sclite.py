"""Our totals against those of NIST's sclite, kind by kind and utterance by utterance, on random texts."""

import json
import random
import unicodedata

import jiwer
import pytest

from asr_parallel import cli
from asr_parallel.config import ScoreConfig
from asr_parallel.score.sources import score_pair

WORDS = ["a", "A", "b", "the", "the", "été", unicodedata.normalize("NFD", "été"), "日本", "don’t", "[noise]", "<unk>",
         "%hes", "x-y", "ß", "मैं", "(mumble)", "a/b"]  # fmt: skip


SHORT = ["a", "b", "ab", "cab", "日本"]


def sides(rng, words, most=12):
    """A reference and a hypothesis made of it by chance; either may be empty, words are repeated."""
    ref = rng.choices(words, k=rng.choice([0, 1, 2, *range(most)]))
    hyp = [w if rng.random() < 0.6 else rng.choice(words) for w in ref if rng.random() < 0.85]
    for _ in range(rng.choice([0, 0, 1, 3])):
        hyp.insert(rng.randint(0, len(hyp)), rng.choice(words))
    return " ".join(ref), " ".join([] if rng.random() < 0.05 else hyp)


def write(path, texts, pattern="{utt} {text}\n"):
    path.write_text("".join(pattern.format(utt=utt, text=text) for utt, text in texts.items()), encoding="utf-8")
    return path


def write_trn(folder, pairs):
    """Files of references and of hypotheses."""
    return [write(folder / f"{i}.trn", {u: p[i] for u, p in pairs.items()}, "{text} ({utt})\n") for i in range(2)]


def kinds(counts):
    return counts.words - counts.subs - counts.dels, counts.subs, counts.dels, counts.ins


def ours(config, ref, hyp):
    return {u.utt: kinds(u.counts) for u in score_pair(config, ref, hyp).utts}


def totals(by_utt):
    return [sum(column) for column in zip(*by_utt.values())]


def test_a_thousand_pairs(tmp_path, sctk, capsys):
    rng = random.Random(1)
    pairs = {f"s{i % 7}-{i:04d}": sides(rng, WORDS) for i in range(1000)}
    ref, hyp = (write(tmp_path / name, {u: p[i] for u, p in pairs.items()}) for i, name in enumerate(("ref", "hyp")))
    speakers = write(tmp_path / "utt2spk", {u: u[:2] for u in pairs})
    with pytest.raises(SystemExit):
        cli.main(["score", "--ref", str(ref), "--hyp", str(hyp), "--utt2spk", str(speakers), "--costs", "sclite",
                  "--json", "--out", str(tmp_path / "out")])  # fmt: skip
    summary = json.loads(capsys.readouterr().out)
    theirs = sctk.trn(tmp_path / "out" / "ref.trn", tmp_path / "out" / "hyp.trn")
    assert ours(ScoreConfig(costs="sclite"), ref, hyp) == theirs
    correct, sub, dele, ins = totals(theirs)
    assert (summary["sub"], summary["del"], summary["ins"]) == (sub, dele, ins)
    assert summary["words"] == correct + sub + dele
    assert summary["empty_references"] > 20

    # with costs of 1, the default, the total is the least
    fewest = totals(ours(ScoreConfig(), ref, hyp))
    words = [[unicodedata.normalize("NFC", text) for text in side] for side in zip(*pairs.values())]
    measured = jiwer.process_words(*words)
    assert sum(fewest[1:]) == measured.substitutions + measured.deletions + measured.insertions
    assert sum(fewest[1:]) <= sub + dele + ins


def test_where_sclite_makes_more_errors_than_need_be(tmp_path, sctk):
    files = write_trn(tmp_path, {"s-1": ("X Y Z A B", "A B P Q R")})
    assert ours(ScoreConfig(costs="sclite"), *files) == sctk.trn(*files) == {"s-1": (2, 0, 3, 3)}
    assert ours(ScoreConfig(), *files) == {"s-1": (0, 5, 0, 0)}


def choices(rng, depth=0):
    """What stands in braces: words, the empty word, or braces again."""
    ways = []
    for _ in range(rng.randint(2, 3)):
        words = " ".join(rng.choices(SHORT, k=rng.randint(1, 3)))
        nested = "{ " + choices(rng, depth + 1) + " }" if depth < 2 else words
        ways.append(rng.choice([words, words, words, "@", nested]))
    return " / ".join(ways)


def test_alternates_on_both_sides(tmp_path, sctk):
    rng = random.Random(2)

    def text():
        return " ".join(rng.choice(["{ " + choices(rng) + " }", *SHORT, "@"]) for _ in range(rng.randint(0, 7)))

    files = write_trn(tmp_path, {f"s-{i:03d}": (text(), text()) for i in range(300)})
    score = score_pair(ScoreConfig(costs="sclite"), *files)
    assert {u.utt: kinds(u.counts) for u in score.utts} == sctk.trn(*files)
    # of characters only the cost is the same: ties between ways through braces go either way
    theirs = {utt: 4 * sub + 3 * (dele + ins) for utt, (_, sub, dele, ins) in sctk.trn(*files, "-c").items()}
    assert {u.utt: 4 * u.chars.subs + 3 * (u.chars.dels + u.chars.ins) for u in score.utts} == theirs


def test_characters(tmp_path, sctk):
    rng = random.Random(3)
    pairs = {f"s-{i:03d}": sides(rng, ["ab", "cab", "日本", "été", "b"], 6) for i in range(200)}
    files = [write(tmp_path / f"{i}.trn", {u: p[i] for u, p in pairs.items()}, "{text} ({utt})\n") for i in range(2)]
    score = score_pair(ScoreConfig(costs="sclite"), *files)
    # of characters only the cost is the same: ties between ways through braces go either way
    theirs = {utt: 4 * sub + 3 * (dele + ins) for utt, (_, sub, dele, ins) in sctk.trn(*files, "-c").items()}
    assert {u.utt: 4 * u.chars.subs + 3 * (u.chars.dels + u.chars.ins) for u in score.utts} == theirs


def test_words_go_to_segments_by_their_times(tmp_path, sctk):
    rng = random.Random(4)
    stm, ctm = [], []
    for file in ("f", "g"):
        time = 0.0
        for _ in range(40):
            begin, end = time + rng.choice([0, 0, 0.5]), time + 2
            text = " ".join(rng.choices("abcd", k=rng.randint(0, 5)))
            text = "IGNORE_TIME_SEGMENT_IN_SCORING" if rng.random() < 0.15 else text or "{ a / @ }"
            stm.append(f"{file} 1 {rng.choice('pq')} {begin:.2f} {end:.2f} {text}\n")
            time = end
        at = 0.0
        while at < time + 3:
            word = f"{file} 1 {at:.2f} 0.31 {rng.choice('abcd')} 0.5\n"
            if rng.random() < 0.1:
                mark = f"{file} 1 * * <ALT{{}}>\n"
                word = "".join(
                    [mark.format("_BEGIN"), word, mark.format(""), word[:-6] + "z 0.5\n", mark.format("_END")]
                )
            ctm.append(word)
            at += rng.uniform(0.32, 0.9)
    (tmp_path / "r.stm").write_text("".join(stm))
    (tmp_path / "h.ctm").write_text("".join(ctm))
    score = score_pair(ScoreConfig(costs="sclite"), tmp_path / "r.stm", tmp_path / "h.ctm")
    theirs = sctk.sclite(("r.stm", "stm"), ("h.ctm", "ctm"))
    assert sorted(kinds(u.counts) for u in score.utts) == sorted(theirs.values())
    by_spk = {spk: kinds(c) for spk, c in score.speakers().items()}
    for spk in "pq":
        assert list(by_spk[spk]) == totals({u: c for u, c in theirs.items() if u.startswith(spk)})

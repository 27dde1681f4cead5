"""LibriSpeech in miniature: its layout, its archives, and its preparation."""

import io
import json
import tarfile

import numpy as np
import prepare_librispeech as prepare
import soundfile

from asr_parallel.data.manifests import load_cuts

SPEAKERS = {"train-clean-5": ["11", "112", "12", "13", "2", "30"], "dev-clean-2": ["84", "9"]}
LEXICON = "WITH\tW IH1 DH\nWITH\tW IH0 DH\nWITH\tW IH2 TH\nA\tAH0\n"
ARPA = "\\data\\\nngram 1=5\n\n\\1-grams:\n-1\t<UNK>\n-1\tA\n-1\tWITH\n-99\t<s>\n-1\t</s>\n\n\\end\\\n"


def flac(hertz, samples=16001):
    out = io.BytesIO()
    tone = 0.3 * np.sin(2 * np.pi * hertz * np.arange(samples) / 16000)
    soundfile.write(out, tone, 16000, format="FLAC", subtype="PCM_16")
    return out.getvalue()


def layout(part):
    """{path: content} of a part: three utterances a speaker, of two chapters."""
    files = {"LibriSpeech/SPEAKERS.TXT": b"; a list\n"}
    for k, speaker in enumerate(SPEAKERS[part]):
        for chapter, count in (("7", 2), ("40", 1)):
            stem = f"{speaker}-{chapter}"
            folder = f"LibriSpeech/{part}/{speaker}/{chapter}"
            lines = [f"{stem}-{i:04d} BOOK {'A' * (k + 1)} PAGE {'B' * (i + 1)}\n" for i in range(count)]
            files[f"{folder}/{stem}.trans.txt"] = "".join(lines).encode()
            for i in range(count):
                files[f"{folder}/{stem}-{i:04d}.flac"] = flac(300 + 100 * k)
    return files


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def run(out, source, *options, mirror="http://127.0.0.1:1"):
    return prepare.main(
        ["--out", str(out), "--source", str(source), "--jobs", "1", "--mirrors", mirror, "--language", "own", *options]
    )


def report(out):
    return json.loads((out / "prepare.json").read_text())


def ids(out, name):
    return [cut.id for cut in load_cuts(out, name)]

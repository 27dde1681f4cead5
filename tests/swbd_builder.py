"""Lays out a Switchboard as the LDC does: mu-law SPHERE of two channels, transcripts, Hub5'00 with its STM.

Written from the descriptions of the formats: neither libsndfile nor the code under test has a part in it.
"""

from dataclasses import dataclass

import numpy as np

RATE = 8000
SCRIPTS = "swb_ms98_transcriptions"
AUDIO_2000 = "LDC2002S09/hub5e_00/english"
STM_2000 = "LDC2002T43/2000_hub5_eng_eval_tr/reference/hub5e00.english.000405.stm"


@dataclass
class Said:
    """A stretch of speech on one side of a call: samples in [-1, 1], text with the corpus's marks."""

    begin: float
    samples: np.ndarray
    text: str

    @property
    def end(self):
        return self.begin + len(self.samples) / RATE


def placed(utts, rng, gap=(0.3, 1.2)):
    """(samples, text) one after another with pauses between, at times of whole milliseconds."""
    time, side = 0.0, []
    for samples, text in utts:
        time = round(time + rng.uniform(*gap), 3)
        side.append(Said(time, samples, text))
        time = side[-1].end
    return side


def mu_law(samples):
    """ITU-T G.711: sign, segment and step of each sample, all bits inverted; uint8."""
    linear = np.clip(np.round(samples * 32767), -32635, 32635).astype(np.int32)
    size = np.abs(linear) + 132
    segment = np.floor(np.log2(size)).astype(np.int32) - 7
    step = (size >> (segment + 3)) & 15
    return (~((linear < 0) * 128 | segment << 4 | step) & 255).astype(np.uint8)


def sphere(data, samples, channels=2, coding="ulaw", rate=RATE):
    """NIST's header of 1,024 bytes before ``data``."""
    fields = {"conversation_id": "2001", "database_id": "SWITCHBOARD", "channel_count": channels,
              "sample_count": samples, "sample_rate": rate, "sample_n_bytes": 1, "sample_sig_bits": 8,
              "sample_coding": coding, "channels_interleaved": "TRUE"}  # fmt: skip
    kind = {k: "-i" if isinstance(v, int) else f"-s{len(v)}" for k, v in fields.items()}
    head = "NIST_1A\n   1024\n" + "".join(f"{k} {kind[k]} {v}\n" for k, v in fields.items()) + "end_head\n"
    return head.encode().ljust(1024) + data


def write_call(path, sides, seed=0):
    """One file of two channels, as long as the longer side, with a little noise on the line."""
    count = int(RATE * (max(s[-1].end for s in sides if s) + 0.5))
    mixed = np.random.default_rng(seed).normal(0, 3e-4, (count, 2))
    for channel, side in enumerate(sides):
        for said in side:
            begin = round(RATE * said.begin)
            mixed[begin : begin + len(said.samples), channel] += said.samples
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sphere(mu_law(mixed).tobytes(), count))
    return count / RATE


def write_train(root, number, sides, disc=1):
    """A call of Switchboard-1 and the transcripts of its sides, silence included."""
    seconds = write_call(root / f"LDC97S62/swb1_d{disc}/data/sw0{number}.sph", sides, number)
    folder = root / SCRIPTS / f"{number // 100}" / f"{number}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, side in zip("AB", sides):
        rows, time = [], 0.0
        for said in side:
            rows += [(time, said.begin, "[silence]"), (said.begin, said.end, said.text)]
            time = said.end
        rows.append((time, seconds, "[silence]"))
        stem = f"sw{number}{name}-ms98-a"
        lines = [f"{stem}-{i:04d} {begin:.6f} {end:.6f} {text}\n" for i, (begin, end, text) in enumerate(rows, 1)]
        (folder / f"{stem}-trans.text").write_text("".join(lines))
        (folder / f"{stem}-word.text").write_text("")


def write_dictionary(root, prons):
    """{token: phones} as ``sw-ms98-dict.text``."""
    lines = ["# a dictionary\n", "#\n", "\n", *(f"{token} {phones}\n" for token, phones in sorted(prons))]
    (root / SCRIPTS).mkdir(parents=True, exist_ok=True)
    (root / SCRIPTS / "sw-ms98-dict.text").write_text("".join(lines))


def write_callers(root, callers):
    """{(call, side): caller} as LDC's table."""
    rows = [f'{call}, "{side}", {who}, "X", 1, 312, "N", ""\n' for (call, side), who in callers.items()]
    path = root / "LDC97S62/docs/call_con_tab.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(rows))


def write_eval2000(root, calls):
    """{name of a call: sides} as Hub5'00, the gaps between segments marked as not to be scored."""
    lines = [';; LABEL "O" "Overall" "all"\n', ';; LABEL "F" "Female" "women"\n', ';; LABEL "M" "Male" "men"\n']
    for name, sides in calls.items():
        write_call(root / AUDIO_2000 / f"{name}.sph", sides, len(name))
        kind = name.split("_")[0]
        for channel, side in zip("AB", sides):
            time, sex = 0.0, "MF"[channel == "B"]
            for said in side:
                gap = f"{name} {channel} inter_segment_gap {time:.2f} {said.begin:.2f}"
                lines.append(f"{gap} <O,{kind},{sex},{kind}-{sex}> IGNORE_TIME_SEGMENT_IN_SCORING\n")
                span = f"{said.begin:.2f} {said.end:.2f}"
                lines.append(f"{name} {channel} {name}_{channel} {span} <O,{kind},{sex},{kind}-{sex}>  {said.text}\n")
                time = said.end
    path = root / STM_2000
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines))


def write_fisher(root, texts):
    """A transcript of Fisher."""
    lines = [f"{i}.10 {i}.90 {'AB'[i % 2]}: {text}\n\n" for i, text in enumerate(texts)]
    path = root / "LDC2004T19/fe_03_p1_tran/data/trans/000/fe_03_00001.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# fe_03_00001.sph\n# Transcribed at the LDC\n\n" + "".join(lines))

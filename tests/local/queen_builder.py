"""Builds a tiny queen.1c: the format written down a second time, in the other direction."""

import io
import struct

import numpy as np
import soundfile


def pascal(text, align, at):
    """A pascal string that begins at offset ``at``; an empty one is not padded."""
    content = bytes([len(text)]) + text.encode("latin-1")
    return content + b"\0" * (-(at + len(content)) % align if text else 0)


def container(entries, version=b"CEM10\0", compression=1):
    """``entries`` is a list of (name, bytes)."""
    table_size = 15 + 21 * len(entries)
    head = b"QTBL" + version + b"\0\0" + struct.pack(">BH", compression, len(entries))
    body = b""
    for name, content in entries:
        head += struct.pack(">12sBII", name.encode(), 1, table_size + len(body), len(content))
        body += content
    return head + body


def dog(key, joe, person, goodbye, levels=-1):
    """A dialogue; ``joe`` and ``person`` are lists of (id, text), ``goodbye`` the person's and JOE's last words."""

    def records(rows, at):
        content = b""
        for number, text in rows:
            content += struct.pack(">HH", 0, number)
            content += pascal(text, 4, at + len(content))
        return content

    head_size = 32 + abs(levels) * 96
    first = records(joe, 20 + head_size)
    second_at = head_size + len(first)
    second = records(person, 20 + second_at)
    last_at = second_at + len(second)
    last = b""
    for text in goodbye:
        last += pascal(text, 2, 20 + last_at + len(last))
    head = struct.pack(">5h6h3H", levels, 99, key, len(joe), len(person), *[0] * 6, second_at, 0, last_at)
    return b"\0" * 20 + head.ljust(head_size, b"\0") + first + second + last


def cut(objects, entry=""):
    """A cut-scene; ``objects`` are dicts: number, text, and maybe list, execute, start, persons, animation."""
    content = b""
    for o in objects:
        words = [o["number"], 0, 0, 0, o.get("list", 0), o.get("execute", 0), *[0] * 6, o.get("start", 0), *[0] * 4]
        persons = o.get("persons", [])
        content += struct.pack(">17h", *words) + struct.pack(f">h{len(persons)}h", len(persons), *persons)
        for row in o.get("animation", []):
            content += struct.pack(">10h", *row)
        if "animation" in o:
            content += struct.pack(">h", -2)
    strings_at = 12 + len(content)
    strings = b""
    for text in [entry, *(o["text"] for o in objects)]:
        strings += pascal(text, 2, 20 + strings_at + len(strings))
    return b"\0" * 20 + struct.pack(">HhhHHH", 0, -len(objects), 0, 0, strings_at, 0) + content + strings


def jas(names, objects, descriptions):
    """QUEEN.JAS and QUEEN2.JAS; ``objects`` are (name from 1, image)."""
    table = struct.pack(">4H", 1, len(names), len(objects), len(descriptions))
    for name, image in objects:
        table += struct.pack(">8h", name, 0, 0, 0, 0, 0, 0, image)
    texts = [*descriptions, *names, "a room", *["open"] * 12]
    return b"\0" * 20 + table, "\r\n".join(texts).encode("latin-1")


def mp3(seconds, hertz=300.0, rate=11025):
    """A tone as an MP3 stream like those of the game."""
    t = np.arange(int(seconds * rate)) / rate
    out = io.BytesIO()
    soundfile.write(out, 0.3 * np.sin(2 * np.pi * hertz * t), rate, format="MP3", subtype="MPEG_LAYER_III")
    return out.getvalue()

"""Trainings on real processes that are lost on purpose.  The test is their launcher, which tells who has ended."""

import json
import os
import time
from contextlib import contextmanager

import torch
from forked import CONTEXT, _child
from torch.distributed import PrefixStore, TCPStore

from asr_parallel.optim.flat import flatten
from asr_parallel.parallel import surviving
from asr_parallel.parallel.membership import newest, note_end
from asr_parallel.parallel.place import Place
from asr_parallel.train import loop
from asr_parallel.train import run as training
from asr_parallel.train.run import work


def spied(place, config, fault=None, step=0, seat=1, pause=0.0):
    """Train; in the worker of ``seat`` ``fault`` happens in the given step.  Notes what exchanges and take-ups did.

    Before an exchange of fewer workers than in the beginning there is a ``pause``, in which another may come.
    """
    whole, taken, seen, notes = loop.exchange, training.take_up, [], {}
    surviving.GRACE_S = 0.3

    def exchange(worker, clock):
        before = flatten(worker.model).clone()
        note("attempt", worker, clock, before)
        time.sleep(pause if worker.comm.size < place.size else 0.0)
        whole(worker, clock)
        note("exchange", worker, clock, before)

    def take_up(worker, *rest):
        at = taken(worker, *rest)
        note("regrouped", worker, worker.clock, flatten(worker.model).clone())
        return at

    def note(what, worker, clock, before):
        where = [clock.epoch, clock.minibatch, clock.minibatches]
        latest = where, before, flatten(worker.model).clone()
        first, _ = notes.setdefault((what, worker.comm.seats), (latest, latest))
        notes[what, worker.comm.seats] = first, latest
        torch.save(notes, config.out / f"notes_{place.rank}_{os.getpid()}.pt")

    def count(*arguments, whole=loop.count):
        whole(*arguments)
        seen.append(1)
        if place.rank == seat and len(seen) == step and fault:
            fault()

    loop.exchange, training.take_up, loop.count = exchange, take_up, count
    return work(config, place)


def notes_of(config, what, seats, latest=False):
    """By seat: where the first (or latest) such thing was among these ``seats``, parameters before and after."""
    found = {}
    for path in sorted(config.out.glob("notes_*.pt")):
        notes = torch.load(path, weights_only=True)
        if (what, tuple(seats)) in notes:
            found[int(path.stem.split("_")[1])] = notes[what, tuple(seats)][latest]
    return found


class Workers:
    """Processes of a training, of which this is the launcher."""

    def __init__(self, config, size, function=spied, **options):
        config.out.mkdir(exist_ok=True)
        self.server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.store = PrefixStore("0", self.server)
        self.work, self.size = (function, config, options), size
        self.results = CONTEXT.Queue()
        self.children = {rank: self.start(rank) for rank in range(size)}

    def start(self, rank, **others):
        function, config, options = self.work
        place = Place(rank, self.size, rank, self.size, port=self.server.port, store_is_there=True)
        options = options | others
        child = CONTEXT.Process(target=_child_of, args=(self.results, function, place, config, options))
        child.start()
        return child

    def wait_for_end(self, rank):
        """Of the process, which is then told to the others."""
        self.children[rank].join(60)
        assert self.children[rank].exitcode is not None
        note_end(self.store, rank)

    def wait_for_loss(self):
        """Until those who are left have agreed to go on."""
        while (plan := newest(self.store)) is None or plan.number == 0:
            time.sleep(0.05)

    def found(self, *ranks):
        """What these have given."""
        found = {}
        while not set(ranks) <= found.keys():
            found |= [self.results.get(timeout=60)]
        return [found[rank] for rank in ranks]


def _child_of(results, function, place, config, options):
    def call(place, *_):
        return function(place, config, **options)

    _child(results, call, place, ())


@contextmanager
def workers(config, size, function=spied, **options):
    started = Workers(config, size, function, **options)
    try:
        yield started
    finally:
        for child in started.children.values():
            child.kill()
            child.join(20)


def going_on(toy, size=3, **changes):
    return toy(workers=size, on_failure="continue", timeout=20.0, **changes)


def summary(config):
    return json.loads((config.out / "train.json").read_text())


def rows(config, name="ledger.tsv"):
    head, *lines = [line.split("\t") for line in (config.out / name).read_text().splitlines()]
    return [dict(zip(head, line)) for line in lines]

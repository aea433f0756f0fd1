"""Paddle's `DataLoader` in verify mode. While a call is compared, the threads of loaders wait before they run code
of the program. A call that reads from a loader is not compared.

Only iterators that are created after verify mode was switched on are known here.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Iterator, Optional, Set
from weakref import WeakSet

from paddle.io.dataloader import dataloader_iter

from .outside import refuse_if_watched

_PATIENCE = 5.0
"""Seconds that a call waits for a batch that is being fetched. A dataset may in turn wait for the program."""
# Seconds between two checks whether a waiting loader has been shut down.
_POLL = 0.05


class Gate:
    """A lock: either threads fetch batches, or one thread compares a call."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._changed = threading.Condition()
        self._fetching = 0
        self._holder: Optional[int] = None
        self.was_left = False
        """True if the call that is compared has read from a loader, which released the threads."""

    def hold(self) -> bool:
        """Stop the threads from fetching. Return `False` if a fetch does not end in time."""
        with self._changed:
            self.was_left = False
            if not self._changed.wait_for(lambda: not self._fetching and self._holder is None, _PATIENCE):
                return False
            self._holder = threading.get_ident()
            return True

    def release(self) -> None:
        """Let the threads fetch again, if the current thread stopped them."""
        if self._holder == threading.get_ident():
            with self._changed:
                self._holder = None
                self._changed.notify_all()

    def leave(self) -> None:
        """Let the threads fetch again, because the current thread, which stopped them, needs a batch."""
        if self._holder == threading.get_ident():
            self.was_left = True
            self.release()

    def enter(self, is_over: threading.Event) -> bool:
        """Wait until no call is compared, and begin a fetch. Return `False` if the loader is shut down meanwhile."""
        with self._changed:
            while self._holder is not None and not is_over.is_set():
                self._changed.wait(_POLL)
            if self._holder is not None:
                return False
            self._fetching += 1
            return True

    def exit(self) -> None:
        """End a fetch."""
        with self._changed:
            self._fetching -= 1
            self._changed.notify_all()


gate = Gate()

_known: WeakSet[Any] = WeakSet()
_is_set_up = False


def set_up() -> None:
    """Watch the loaders' iterators that are created from now on."""
    global _is_set_up
    if not _is_set_up:
        _is_set_up = True
        for kind in (dataloader_iter._DataLoaderIterSingleProcess, dataloader_iter._DataLoaderIterMultiProcess):
            kind._init_thread = _known_from_here(kind._init_thread)


def is_known(found: Any) -> bool:
    """Return whether an object is a watched iterator: its thread waits during compared calls; reads are noticed."""
    return issubclass(type(found), dataloader_iter._DataLoaderIterBase) and found in _known


def threads() -> Set[Optional[threading.Thread]]:
    """Return the threads of the watched iterators. They run code of the program only inside the gate, or not at all."""
    found: Set[Optional[threading.Thread]] = set()
    for iterator in list(_known):
        # With worker processes, one thread receives the batches, and one thread for each queue sends indices.
        queues = getattr(iterator, "_indices_queues", ())
        found.update([iterator._thread, *(getattr(queue, "_thread", None) for queue in queues)])
    return found


def forget() -> None:
    """Stop watching the iterators, because a fetch did not end in time."""
    _known.clear()


def _known_from_here(begin: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(begin)
    def init_thread(iterator: Any) -> None:
        fetcher = getattr(iterator, "_dataset_fetcher", None)
        if fetcher is not None:
            # Without worker processes, the thread runs the sampler, the dataset and the collate function.
            is_over = iterator._thread_done_event
            iterator._sampler_iter = _sampled(iterator._sampler_iter, is_over)
            fetcher.fetch = _fetching(fetcher.fetch, is_over)
        begin(iterator)
        iterator._reader = _Reader(iterator._reader)
        _known.add(iterator)

    return init_thread


def _sampled(sampler: Iterator[Any], is_over: threading.Event) -> Iterator[Any]:
    while gate.enter(is_over):
        try:
            indices = next(sampler, _END)
        finally:
            gate.exit()
        if indices is _END:
            return
        yield indices


_END = object()


def _fetching(fetch: Callable[..., Any], is_over: threading.Event) -> Callable[..., Any]:
    def fetch_at_gate(*args: Any) -> Any:
        if not gate.enter(is_over):
            return None
        try:
            return _rebuilt(fetch(*args))
        finally:
            gate.exit()

    return fetch_at_gate


def _rebuilt(batch: Any) -> Any:
    """Copy the containers of a batch, because the thread reads them after it has left the gate."""
    if isinstance(batch, (str, bytes)):
        return batch
    if isinstance(batch, Sequence):
        return [_rebuilt(field) for field in batch]
    return {key: _rebuilt(field) for key, field in batch.items()} if isinstance(batch, Mapping) else batch


class _Reader:
    """Wraps the queue reader of an iterator, to notice when the program reads from the loader."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        refuse_if_watched("I/O: a DataLoader is read")
        gate.leave()
        return getattr(self._reader, name)

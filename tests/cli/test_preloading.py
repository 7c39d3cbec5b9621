"""Loading by a thread: done when it is waited for, and never in the way."""

import threading

import pytest

from mr_dedup.cli.preloading import preloading


def test_what_is_waited_for_is_loaded():
    loaded, go_on = [], threading.Event()

    def load():
        go_on.wait(60)
        loaded.append(threading.current_thread())

    with preloading(load) as wait:
        assert not loaded
        go_on.set()
        wait()
        assert loaded != [threading.current_thread()]
        assert len(loaded) == 1


def test_no_thread_is_left_behind_by_an_error():
    go_on = threading.Event()

    def load():
        go_on.wait(60)

    before = threading.active_count()
    with pytest.raises(ValueError, match="a mistake"), preloading(load):
        go_on.set()
        raise ValueError("a mistake")
    assert threading.active_count() == before


def test_what_cannot_be_loaded_is_told_of_where_it_is_needed(capfd):
    def load():
        raise ImportError("no such module")

    with preloading(load) as wait:
        wait()
    assert capfd.readouterr() == ("", "")


def test_there_may_be_nothing_to_load():
    with preloading(None) as wait:
        wait()


def test_what_is_to_come_later_waits_for_its_event():
    loaded, event = [], threading.Event()
    with preloading(lambda: loaded.append(1), event) as wait:
        assert not loaded
        event.set()
        wait()
        assert loaded == [1]


def test_what_never_comes_is_given_up():
    loaded = []
    with preloading(lambda: loaded.append(1), threading.Event()):
        pass
    assert not loaded

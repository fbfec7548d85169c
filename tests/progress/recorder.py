"""A listener that records all events."""

from gpclass.progress import Listener, listening


class Recorder(Listener):
    """Record all events: paths of names, and figures."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def changed(self):
        self.heard.append((self.path, self.phases[-1].text))

    @property
    def names(self):
        return list(dict.fromkeys(name for path, _ in self.heard for name in path))


def heard(clf, X, y):
    recorder = Recorder()
    with listening(recorder):
        clf.fit(X, y)
    assert recorder.phases == []
    return recorder

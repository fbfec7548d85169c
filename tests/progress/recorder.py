"""A listener that keeps what it hears."""

from gpclass.progress import Listener, listening


class Recorder(Listener):
    """Keeps all that it hears: paths of names, and figures."""

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

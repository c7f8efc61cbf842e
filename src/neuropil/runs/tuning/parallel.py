"""Trials of one search in several processes at once: who trains what, and what becomes of those whose worker dies."""

from typing import TYPE_CHECKING

from neuropil.errors import StorageError
from neuropil.runs.tuning.trial import TrialEnd
from neuropil.runs.tuning.workers import Message, Pool, Worker, ending_in_words
from neuropil.training.interruption import StopRequest

if TYPE_CHECKING:
    from neuropil.runs.tuning.session import Course, Session

SECONDS_BETWEEN_LOOKS = 0.2
"""At the clock and at Ctrl-C, while no worker says anything."""
LOST = {-9, -15}
"""A worker that was killed from outside: its trial goes on from its checkpoint in another one, once."""


class Crew:
    """The workers of a search and the trials that they train."""

    def __init__(self, session: "Session", pool: Pool):
        self.session, self.pool = session, pool
        self.idle: list[Worker] = []
        self.courses: dict[Worker, Course] = {}

    def run(self) -> None:
        with StopRequest() as stop, self.session.display:
            try:
                self._fill()
                while self.courses:
                    if (said := self.pool.receive(SECONDS_BETWEEN_LOOKS)) is not None:
                        self._hear(*said)
                    if stop.requested:
                        raise KeyboardInterrupt
                    if self.session.out_of_time():
                        for worker in self.courses:
                            worker.stop()
                    self.session.show_courses([*self.courses.values()])
            finally:
                self.pool.close()

    def _fill(self) -> None:
        while len(self.courses) < self.pool.size and (course := self.session.next_course()) is not None:
            self._give(course)

    def _give(self, course: "Course") -> None:
        worker = self.idle.pop() if self.idle else self.pool.open()
        self.courses[worker] = course
        worker.send({"trial": course.trial.to_dict(), "show_progress": self.session.show})

    def _hear(self, worker: Worker, message: Message | None) -> None:
        course = self.courses.get(worker)
        if course is None:  # it has ended after its trial did
            self.idle = [each for each in self.idle if each is not worker]
        elif message is None:
            self._lose(worker, self.courses.pop(worker))
        elif "points" in message:
            points = [(share, value) for share, value in message["points"]]
            worker.send({"end": course.report(points, message["share"])})
        elif "refused" in message:  # the trial goes on when there is room
            rule, got, fix = message["refused"]
            raise StorageError(rule, got=got, fix=fix)
        elif "stopped" not in message:  # else it ends, which is heard next
            del self.courses[worker]
            self.idle.append(worker)
            course.close(TrialEnd(message["state"], message["reason"]))
            self._fill()

    def _lose(self, worker: Worker, course: "Course") -> None:
        code, last = worker.host.ending()
        if worker.stopped:
            course.close(TrialEnd("stopped"))  # by the time limit
        elif code in LOST and not course.lost:
            course.lost += 1
            self._give(course)
            return
        else:
            course.close(TrialEnd("failed", ending_in_words(code, last)))
        self._fill()

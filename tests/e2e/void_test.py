#!/usr/bin/python3
"""A test that was void is begun anew, once; one that fails is not. What readers saw is judged: bytes and errors always, their
number always, their longest wait where times are held."""

import contextlib
import io
import unittest
import unittest.mock

import verified_load
from verified_load import Void, fault_made, judge, unless_void


class Tried(unittest.TestCase):
    """Ends as `endings` says, one after the other."""

    endings = ()

    def setUp(self):
        self.ends = iter(self.endings) if not hasattr(self, "ends") else self.ends
        self.log = getattr(self, "log", [])
        self.log.append("set up")
        self.addCleanup(self.log.append, "cleaned up")

    @unless_void
    def tried(self):
        ending = next(self.ends)
        self.log.append("run")
        if ending is not None:
            raise ending


class VoidTest(unittest.TestCase):
    def tried(self, *endings):
        test = Tried("tried")
        test.endings = endings
        result = unittest.TestResult()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            test.run(result)
        return test.log, [text for _, text in result.failures + result.errors], said.getvalue()

    def test_a_good_one_runs_once(self):
        self.assertEqual(self.tried(None), (["set up", "run", "cleaned up"], [], ""))

    def test_a_void_one_is_set_up_anew(self):
        log, failures, said = self.tried(Void("no packet was lost"), None)
        self.assertEqual(log, ["set up", "run", "cleaned up", "set up", "run", "cleaned up"])
        self.assertEqual(failures, [])
        self.assertIn("void, and begun anew: no packet was lost", said)

    def test_one_that_is_void_again_fails_and_says_so(self):
        log, failures, _ = self.tried(Void("no packet was lost"), Void("17 reads a second"), None)
        self.assertEqual(log.count("run"), 2)
        self.assertEqual(len(failures), 1)
        self.assertIn("void twice, so it proves nothing: 17 reads a second", failures[0])

    def test_a_failure_is_no_void_run(self):
        log, failures, _ = self.tried(AssertionError("wrong bytes"), None)
        self.assertEqual(log.count("run"), 1)
        self.assertIn("wrong bytes", failures[0])

    def test_a_fault_that_does_not_show_is_void(self):
        self.assertEqual(fault_made(lambda: 7, "it shows"), 7)
        with self.assertRaisesRegex(Void, "the fault did not happen: it shows"):
            fault_made(lambda: False, "it shows", seconds=0)

    def judged(self, stall=3, **seen):
        total = {"reads": 100, "rate": 2000.0, "longest_seconds": 0.5, "errors": [], "wrong": [], **seen}
        with contextlib.redirect_stderr(io.StringIO()):
            judge(self, total, "a fault", 2000, stall)

    def test_wrong_bytes_errors_and_too_few_reads_are_never_passed(self):
        self.judged()
        for seen in ({"errors": ["a: EIO"]}, {"wrong": ["a"]}, {"wrong": ["a"], "rate": 1.0}):
            with self.assertRaises(AssertionError) as failed:
                self.judged(**seen)
            self.assertNotIsInstance(failed.exception, Void)
        with self.assertRaisesRegex(Void, "a fault: 1999 reads a second are too little load, 2000 are claimed"):
            self.judged(rate=1999.0)

    def test_long_waits_are_failures_where_times_are_held(self):
        for holds in (False, True):
            with unittest.mock.patch.object(verified_load, "HOLDS_TIMES", holds):
                self.assertEqual(verified_load.held(3, 12), 3 if holds else 12)
                self.judged(longest_seconds=3.0)
                self.judged(stall=None, longest_seconds=60.0)
                if holds:
                    with self.assertRaisesRegex(AssertionError, "a fault"):
                        self.judged(longest_seconds=3.1)
                else:
                    self.judged(longest_seconds=3.1)


if __name__ == "__main__":
    unittest.main(verbosity=2)

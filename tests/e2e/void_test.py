#!/usr/bin/python3
"""A test that was void is begun anew, once; one that fails is not."""

import contextlib
import io
import unittest

from verified_load import Void, fault_made, unless_void


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


if __name__ == "__main__":
    unittest.main(verbosity=2)

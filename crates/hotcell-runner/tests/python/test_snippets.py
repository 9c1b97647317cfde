"""Ordinary programs: each is run from a zygote, and a few of them cold too."""

import unittest

import cell
from snippets import SNIPPETS, TABLES


class Snippets(cell.CellTest):
    def test_all_run_warm(self):
        self.assertGreaterEqual(len(SNIPPETS), 60)
        for name, code, expected in SNIPPETS:
            with self.subTest(name):
                self.assertEqual(self.value(code), expected)

    def test_every_fifth_runs_cold_with_the_same_result(self):
        for name, code, expected in SNIPPETS[::5]:
            with self.subTest(name):
                outcome = self.cold(code)
                self.assertEqual(outcome.code, 0, outcome)
                self.assertEqual(outcome.result, expected)

    def test_a_wrong_expectation_is_noticed(self):
        with self.assertRaises(AssertionError):
            self.assertEqual(self.value("1 + 1"), 3)
        with self.assertRaises(AssertionError):
            self.value("1 / 0")


@unittest.skipUnless(cell.has("pandas"), "no pandas here")
class Tables(cell.CellTest):
    imports = ("numpy", "pandas")

    def test_all_run(self):
        for name, code, expected in TABLES:
            with self.subTest(name):
                self.assertEqual(self.value(code), expected)


if __name__ == "__main__":
    cell.main()

class Bad:
    def test_tested(self):
        pass

    def test_unstated(self):
        pass

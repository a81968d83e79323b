// TODO: everything.
int Later() { return 0; }  // NOLINT
int Silenced() { return 0; }  // NOLINT(misc-x)
TEST(Later, DISABLED_Works) {}

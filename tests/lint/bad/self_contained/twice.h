struct Twice {};

#include "cachenode/daemon.h"

int main(int argc, char** argv) { return forebay::RunNode(argc, argv); }

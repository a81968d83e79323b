#include "coordinator/daemon.h"

int main(int argc, char** argv) { return forebay::RunCoordinator(argc, argv); }

#include "cli/program.h"

int main(int argc, char** argv) { return forebay::RunCli(argc, argv); }

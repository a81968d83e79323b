#include "fuse-client/mount_program.h"

int main(int argc, char** argv) { return forebay::RunMount(argc, argv); }

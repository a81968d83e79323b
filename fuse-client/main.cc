#include "fuse-client/mount.h"

int main(int argc, char** argv) { return forebay::RunMount(argc, argv); }

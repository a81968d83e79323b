#pragma once

namespace forebay {

/// The whole program: configuration, S3, the Node, signals. Returns the exit code.
int RunNode(int argc, char** argv);

}  // namespace forebay

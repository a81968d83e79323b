#pragma once

namespace forebay {

/// The whole program: configuration, S3, the Coordinator, signals. Returns the exit code.
int RunCoordinator(int argc, char** argv);

}  // namespace forebay

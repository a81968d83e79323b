#pragma once

namespace forebay {

/// All of `forebay`: reads the command line, runs the verb, prints its failure. Answers the exit
/// code.
int RunCli(int argc, char** argv);

}  // namespace forebay

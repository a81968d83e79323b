#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace forebay {

/// A program that a test starts, with its output in pipes. Killed when this ends. Every wait ends
/// after 20 s.
class ChildProcess {
 public:
  /// `environment` is added to the test's own: "NAME=value".
  explicit ChildProcess(std::vector<std::string> command,
                        std::vector<std::string> environment = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The next line of standard output, without its end; "" when there is no more.
  std::string ReadLine();
  void Signal(int number) const;
  /// Waits for its end: the exit status, or 128 + the signal that killed it; -1 after 20 s.
  int Wait();
  /// What is left of standard output, and all of standard error, after Wait().
  std::string RestOfOutput();
  std::string Errors();

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  std::string read_;
};

}  // namespace forebay

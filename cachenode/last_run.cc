#include "cachenode/last_run.h"

#include <charconv>
#include <filesystem>
#include <system_error>

#include "common/base/files.h"

namespace forebay {
namespace {

constexpr std::string_view kBootKey = "boot ";
constexpr std::string_view kKillsKey = "\noom_kills ";
/// Of /proc/vmstat: all processes of the machine, those of control groups included.
constexpr std::string_view kCounter = "\noom_kill ";

std::uint64_t NumberAt(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

LastRun::Mark LastRun::Now() const {
  Mark mark;
  std::string boot = ReadWholeFile(proc_ + "/sys/kernel/random/boot_id").value_or("");
  mark.boot = boot.substr(0, boot.find('\n'));
  const std::string counters = ReadWholeFile(proc_ + "/vmstat").value_or("");
  const std::size_t at = counters.find(kCounter);
  if (at != std::string::npos)
    mark.kills = NumberAt(std::string_view(counters).substr(at + kCounter.size()));
  return mark;
}

std::optional<LastRun::Mark> LastRun::Parse(std::string_view text) {
  const std::size_t kills = text.find(kKillsKey);
  if (!text.starts_with(kBootKey) || kills == std::string_view::npos) return std::nullopt;
  return Mark{.boot = std::string(text.substr(kBootKey.size(), kills - kBootKey.size())),
              .kills = NumberAt(text.substr(kills + kKillsKey.size()))};
}

Status LastRun::Write(const Mark& mark) {
  std::string text(kBootKey);
  text += mark.boot;
  text += kKillsKey;
  text += std::to_string(mark.kills) + "\n";
  Status written = WriteFileAtomically(file_, text);
  if (written) written_ = mark;
  return written;
}

Result<RunEnd> LastRun::Begin() {
  const Result<std::string> left = ReadWholeFile(file_);
  if (!left && left.error().code != Code::kNotFound) return Fail(left.error());
  const Mark now = Now();
  RunEnd end = RunEnd::kStopped;
  if (left) {
    const std::optional<Mark> then = Parse(*left);
    const bool by_kernel = then && then->boot == now.boot && now.kills > then->kills;
    end = by_kernel ? RunEnd::kOutOfMemory : RunEnd::kKilled;
  }
  Status written = Write(now);
  if (!written) return Fail(written.error());
  return end;
}

Status LastRun::Look() {
  const Mark now = Now();
  return now == written_ ? Status() : Write(now);
}

Status LastRun::End() {
  std::error_code error;
  std::filesystem::remove(file_, error);
  if (error) return Fail(Code::kInternal, "removing " + file_ + ": " + error.message());
  return {};
}

}  // namespace forebay

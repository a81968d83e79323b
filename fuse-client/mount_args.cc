#include "fuse-client/mount_args.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/base/nearest.h"

namespace forebay {

namespace {

/// Options that are forebay-mount's own: `key` alone or `key=value`, with '_' or '-'.
constexpr std::array<std::string_view, 4> kSwitches = {"allow-other", "foreground", "check-config",
                                                       "print-config"};
constexpr std::array<std::string_view, 16> kValues = {
    "job-id",           "job-from",       "uid",       "gid",      "file-mode",
    "dir-mode",         "coordinator",    "state-dir", "threads",  "s3-timeout",
    "failover-timeout", "metrics-listen", "log-level", "log-file", "config"};

/// What fstab lines carry for mount(8) itself, or what holds anyway: the mount is read-only,
/// without devices and set-user-id programs, and its times never change.
constexpr std::array<std::string_view, 24> kIgnored = {
    "ro",     "_netdev", "nofail",     "auto",     "noauto",     "user",        "users",  "nouser",
    "owner",  "group",   "noatime",    "relatime", "nodiratime", "strictatime", "nosuid", "nodev",
    "noexec", "async",   "norelatime", "atime",    "lazytime",   "nolazytime",  "loud",   "silent"};

constexpr std::array<std::string_view, 6> kWarned = {"rw",   "defaults", "exec",
                                                     "suid", "dev",      "sync"};

template <std::size_t N>
bool Contains(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (comma > 0) parts.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

std::unexpected<Error> UnknownOption(std::string_view option) {
  std::vector<std::string> known(kSwitches.begin(), kSwitches.end());
  known.insert(known.end(), kValues.begin(), kValues.end());
  for (std::string& name : known) std::replace(name.begin(), name.end(), '-', '_');
  return Fail(Code::kInvalid,
              "unknown mount option \"" + std::string(option) + "\": " + Suggest(option, known));
}

Status TakeOption(std::string_view option, MountArguments& out) {
  if (Contains(kIgnored, option) || option.starts_with("x-") || option.starts_with("X-") ||
      option.starts_with("comment=")) {
    return {};
  }
  if (Contains(kWarned, option)) {
    if (out.warnings.empty()) {
      out.warnings.push_back("mount option \"" + std::string(option) +
                             "\" is ignored: a Forebay mount is always ro,nosuid,nodev");
    }
    return {};
  }
  const std::size_t equals = option.find('=');
  std::string name(option.substr(0, equals));
  std::replace(name.begin(), name.end(), '_', '-');
  if (equals == std::string_view::npos && Contains(kSwitches, name)) {
    out.arguments.push_back("--" + name);
    return {};
  }
  if (Contains(kValues, name)) {
    if (equals == std::string_view::npos) {
      return Fail(Code::kInvalid, "mount option \"" + std::string(option) + "\" needs a value");
    }
    out.arguments.push_back("--" + name);
    out.arguments.emplace_back(option.substr(equals + 1));
    return {};
  }
  return UnknownOption(option.substr(0, equals));
}

// "h1:7440,h2:7440/imagenet/train": what stands before the first slash is an address if it has a
// colon, which no link's name has.
void TakeSource(const std::string& source, MountArguments& out) {
  const std::size_t slash = source.find('/');
  const std::string head = source.substr(0, slash);
  if (slash == std::string::npos || head.find(':') == std::string::npos) {
    out.arguments.push_back(source);
    return;
  }
  out.arguments.push_back(source.substr(slash + 1));
  out.arguments.push_back("--coordinator");
  out.arguments.push_back(head);
}

}  // namespace

Result<MountArguments> TranslateMountArguments(const std::vector<std::string>& arguments) {
  MountArguments out;
  std::vector<std::string> places;
  std::vector<std::string> options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool takes_value = word == "-o" || word == "-t" || word == "-N";
    if (takes_value && i + 1 == arguments.size()) {
      return Fail(Code::kInvalid, word + " needs a value");
    }
    if (takes_value) {
      ++i;
      if (word == "-o") options.push_back(arguments[i]);
    } else if (word.size() > 1 && word[0] == '-' &&
               word.find_first_not_of("sfnv", 1) == std::string::npos) {
      out.fake = out.fake || word.find('f') != std::string::npos;
    } else if (word.starts_with("-")) {
      // --help, --version and the like mean what they mean to forebay-mount.
      out.arguments.push_back(word);
    } else {
      places.push_back(word);
    }
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i == 0) {
      TakeSource(places[i], out);
    } else {
      out.arguments.push_back(places[i]);
    }
  }
  for (const std::string& list : options) {
    for (const std::string_view option : SplitAtCommas(list)) {
      const Status taken = TakeOption(option, out);
      if (!taken) return Fail(taken.error());
    }
  }
  return out;
}

}  // namespace forebay

#include "fuse-client/mount_args.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "common/base/config_option.h"
#include "common/base/nearest.h"
#include "common/config/log_config.h"
#include "common/config/mount_config.h"

namespace forebay {

namespace {

/// Options that every program has beside those of its configuration.
constexpr std::array<std::string_view, 2> kProgramSwitches = {"check-config", "print-config"};
constexpr std::string_view kProgramValue = "config";

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

// As mount(8) writes them: a value that holds commas stands in double quotes.
std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts(1);
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  std::erase(parts, "");
  return parts;
}

/// The names that `-o` takes: forebay-mount's flags without their dashes.
class KnownOptions {
 public:
  KnownOptions() {
    MountConfig mount;
    LogConfig log;
    for (const ConfigSection& section : {MountSection(mount), LogSection(log)}) {
      for (const ConfigOption& option : section.options) {
        if (option.positional) continue;
        (option.value.is_switch ? switches_ : values_).push_back(option.flag.substr(2));
      }
    }
    switches_.insert(switches_.end(), kProgramSwitches.begin(), kProgramSwitches.end());
    values_.emplace_back(kProgramValue);
  }

  bool IsSwitch(const std::string& name) const { return std::ranges::count(switches_, name) > 0; }
  bool IsValue(const std::string& name) const { return std::ranges::count(values_, name) > 0; }

  /// As people write them after -o.
  std::vector<std::string> Names() const {
    std::vector<std::string> names = switches_;
    names.insert(names.end(), values_.begin(), values_.end());
    for (std::string& name : names) std::ranges::replace(name, '-', '_');
    return names;
  }

 private:
  std::vector<std::string> switches_;
  std::vector<std::string> values_;
};

/// "shard=0/4,seed=7,epoch=2" without quotes is three options to mount(8).
bool IsOfShard(std::string_view option) {
  return option.starts_with("seed=") || option.starts_with("epoch=");
}

Status AddToShard(const std::vector<std::string>& parts, MountArguments& out) {
  if (parts.empty()) return {};
  const auto shard = std::ranges::find(out.arguments, "--shard");
  if (shard == out.arguments.end()) {
    return Fail(Code::kInvalid, "mount option \"" + parts.front() +
                                    "\" is a part of shard=I/N,seed=S,epoch=E, and there is no "
                                    "shard=");
  }
  for (const std::string& part : parts) *std::next(shard) += "," + part;
  return {};
}

Status TakeOption(std::string_view option, const KnownOptions& known, bool sloppy,
                  MountArguments& out) {
  if (Contains(kIgnored, option) || option.starts_with("x-") || option.starts_with("X-") ||
      option.starts_with("comment=") || option.starts_with("user=")) {
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
  if (equals == std::string_view::npos && known.IsSwitch(name)) {
    out.arguments.push_back("--" + name);
    return {};
  }
  if (equals != std::string_view::npos && known.IsSwitch(name)) {
    return Fail(Code::kInvalid, "mount option \"" + std::string(option) + "\" takes no value");
  }
  if (known.IsValue(name)) {
    if (equals == std::string_view::npos) {
      return Fail(Code::kInvalid, "mount option \"" + std::string(option) + "\" needs a value");
    }
    out.arguments.push_back("--" + name);
    out.arguments.emplace_back(option.substr(equals + 1));
    return {};
  }
  if (sloppy) return {};
  const std::string wrong(option.substr(0, equals));
  return Fail(Code::kInvalid,
              "unknown mount option \"" + wrong + "\": " + Suggest(wrong, known.Names()));
}

// "h1:7440,h2:7440/imagenet/train": what stands before the first slash is an address if it has a
// colon, which no link's name has. Nothing after that slash is every link, "/".
void TakeSource(const std::string& source, MountArguments& out) {
  out.source = source;
  const std::size_t slash = source.find('/');
  const std::string head = source.substr(0, slash);
  if (slash == std::string::npos || head.find(':') == std::string::npos) {
    out.arguments.push_back(source);
    return;
  }
  const std::string link = source.substr(slash + 1);
  out.arguments.push_back(link.empty() ? "/" : link);
  out.arguments.push_back("--coordinator");
  out.arguments.push_back(head);
}

}  // namespace

Result<MountArguments> TranslateMountArguments(const std::vector<std::string>& arguments) {
  MountArguments out;
  std::vector<std::string> places;
  std::vector<std::string> options;
  bool sloppy = false;
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
      sloppy = sloppy || word.find('s') != std::string::npos;
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
  const KnownOptions known;
  std::vector<std::string> of_shard;
  for (const std::string& list : options) {
    for (const std::string& option : SplitAtCommas(list)) {
      if (IsOfShard(option)) {
        of_shard.push_back(option);
        continue;
      }
      const Status taken = TakeOption(option, known, sloppy, out);
      if (!taken) return Fail(taken.error());
    }
  }
  const Status added = AddToShard(of_shard, out);
  if (!added) return Fail(added.error());
  return out;
}

}  // namespace forebay

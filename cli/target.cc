#include "cli/target.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

namespace forebay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMountType = "fuse.forebay";

/// One line of the mount table (proc(5), mountinfo).
struct MountLine {
  std::string device;
  std::string root;  ///< What of the file system is mounted: "/", or a folder of a bind mount.
  std::string place;
  std::string type;
};

/// The table writes blanks, tabs, line ends and backslashes as three octal digits.
std::string Unescaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 3), nullptr, 8));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<MountLine> ReadMountTable(const std::string& path) {
  std::vector<MountLine> mounts;
  std::ifstream table(path);
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string skipped;
    MountLine mount;
    fields >> skipped >> skipped >> mount.device >> mount.root >> mount.place;
    while (fields >> skipped && skipped != "-") {
    }
    fields >> mount.type;
    mount.root = Unescaped(mount.root);
    mount.place = Unescaped(mount.place);
    if (fields) mounts.push_back(std::move(mount));
  }
  return mounts;
}

/// `path` relative to `folder`, or nothing when it lies elsewhere.
std::optional<std::string> Below(std::string_view path, std::string_view folder) {
  if (folder == "/") return std::string(path.substr(1));
  if (!path.starts_with(folder)) return std::nullopt;
  path.remove_prefix(folder.size());
  if (path.empty()) return std::string();
  if (path.front() != '/') return std::nullopt;
  return std::string(path.substr(1));
}

/// The mount that `path` lies in: the longest place, of several at one place the topmost.
const MountLine* MountOf(const std::vector<MountLine>& mounts, std::string_view path) {
  const MountLine* best = nullptr;
  for (const MountLine& mount : mounts) {
    if (!Below(path, mount.place)) continue;
    if (best == nullptr || mount.place.size() >= best->place.size()) best = &mount;
  }
  return best;
}

std::string Joined(std::string_view a, std::string_view b) {
  while (a.ends_with('/')) a.remove_suffix(1);
  while (b.starts_with('/')) b.remove_prefix(1);
  while (b.ends_with('/')) b.remove_suffix(1);
  if (a.empty() || b.empty()) return std::string(a.empty() ? b : a);
  return fmt::format("{}/{}", a, b);
}

/// LINK or LINK/sub/path that the root of a mount shows, as its own control file says.
std::expected<std::string, Failure> ShownAt(const std::string& place) {
  const std::string path = place + "/.forebay/config";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  boost::system::error_code failed;
  const boost::json::value config = boost::json::parse(text.str(), failed);
  const boost::json::object* fields = failed ? nullptr : config.if_object();
  const auto field = [&](std::string_view name) {
    const boost::json::value* value = fields == nullptr ? nullptr : fields->if_contains(name);
    const boost::json::string* word = value == nullptr ? nullptr : value->if_string();
    return word == nullptr ? std::string() : std::string(word->begin(), word->end());
  };
  if (!file || field("link").empty()) {
    return std::unexpected(
        Failure(Error{Code::kUnavailable, fmt::format("the mount at {} does not say what it shows: "
                                                      "{} cannot be read",
                                                      place, path)},
                "give the target as NAME/sub/path", Exit::kFailed));
  }
  return Joined(field("link"), field("sub_path"));
}

bool IsWrittenAsPath(std::string_view text) {
  return text.starts_with('/') || text.starts_with("./") || text.starts_with("../") ||
         text == "." || text == "..";
}

std::unexpected<Failure> PathFails(const std::string& text, const std::error_code& why) {
  const bool dead = why.value() == ENOTCONN;
  return std::unexpected(
      Failure(Error{Code::kUnavailable,
                    fmt::format("{}: {}", text, dead ? "its mount is dead" : why.message())},
              dead ? "unmount it with `umount -l` and mount it again" : "", Exit::kFailed));
}

}  // namespace

std::expected<std::string, Failure> ResolveTargetText(const std::string& text,
                                                      const LocalView& view) {
  if (text.empty()) return UsageError("an empty text is no target");
  if (text.starts_with("s3://")) return text;
  const bool written_as_path = IsWrittenAsPath(text);
  std::error_code error;
  const fs::path real = written_as_path ? fs::weakly_canonical(fs::absolute(text, error), error)
                                        : fs::canonical(text, error);
  if (error && !written_as_path) return text;
  if (error) return PathFails(text, error);

  std::string path = real.string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::vector<MountLine> mounts = ReadMountTable(view.mount_table);
  const MountLine* mount = MountOf(mounts, path);
  if (mount == nullptr || mount->type != kMountType) {
    if (!written_as_path) return text;
    return UsageError(fmt::format("{} lies in no Forebay mount", text),
                      "a target is NAME, NAME/sub/path, s3://bucket/prefix or a path in a mount");
  }
  const std::string inside = Joined(mount->root, *Below(path, mount->place));
  // A bind mount of a folder has no control files: they are at the root of what it is taken from.
  for (const MountLine& whole : mounts) {
    if (whole.device != mount->device || whole.root != "/") continue;
    std::expected<std::string, Failure> shown = ShownAt(whole.place);
    if (!shown) return shown;
    return Joined(*shown, inside);
  }
  return std::unexpected(Failure(
      Error{Code::kUnavailable, fmt::format("{} is a bind mount of {} whose own mount is gone",
                                            mount->place, mount->root)},
      "give the target as NAME/sub/path", Exit::kFailed));
}

}  // namespace forebay

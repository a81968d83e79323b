#include "cli/target.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "cli/local_mounts.h"

namespace forebay {
namespace {

namespace fs = std::filesystem;

std::string Joined(std::string_view a, std::string_view b) {
  while (a.ends_with('/')) a.remove_suffix(1);
  while (b.starts_with('/')) b.remove_prefix(1);
  while (b.ends_with('/')) b.remove_suffix(1);
  if (a.empty() || b.empty()) return std::string(a.empty() ? b : a);
  return fmt::format("{}/{}", a, b);
}

/// LINK or LINK/sub/path that the root of a mount shows, as its own control file says.
std::expected<std::string, Failure> ShownAt(const std::string& place) {
  const std::expected<boost::json::object, Failure> config = ConfigOfMount(place);
  if (!config) return std::unexpected(config.error());
  // Of the top of a set's mount.
  if (TextIn(*config, "link").empty()) return TextIn(*config, "set");
  return Joined(TextIn(*config, "link"), TextIn(*config, "sub_path"));
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
  if (mount == nullptr || !mount->is_forebay()) {
    if (!written_as_path) return text;
    return UsageError(fmt::format("{} lies in no Forebay mount", text),
                      "a target is NAME, NAME/sub/path, s3://bucket/prefix or a path in a mount");
  }
  const std::string inside = Joined(mount->root, *PathBelow(path, mount->place));
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

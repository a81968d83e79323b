#include "cli/local_mounts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

namespace forebay {
namespace {

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

}  // namespace

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

std::optional<std::string> PathBelow(std::string_view path, std::string_view folder) {
  if (folder == "/") return std::string(path.substr(1));
  if (!path.starts_with(folder)) return std::nullopt;
  path.remove_prefix(folder.size());
  if (path.empty()) return std::string();
  if (path.front() != '/') return std::nullopt;
  return std::string(path.substr(1));
}

const MountLine* MountOf(const std::vector<MountLine>& mounts, std::string_view path) {
  const MountLine* best = nullptr;
  for (const MountLine& mount : mounts) {
    if (!PathBelow(path, mount.place)) continue;
    if (best == nullptr || mount.place.size() >= best->place.size()) best = &mount;
  }
  return best;
}

std::string TextIn(const boost::json::object& config, std::string_view name) {
  const boost::json::value* value = config.if_contains(name);
  const boost::json::string* word = value == nullptr ? nullptr : value->if_string();
  return word == nullptr ? std::string() : std::string(word->begin(), word->end());
}

std::expected<boost::json::object, Failure> ConfigOfMount(const std::string& place) {
  const std::string path = place + "/.forebay/config";
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  boost::system::error_code failed;
  const boost::json::value config = boost::json::parse(text.str(), failed);
  const boost::json::object* fields = failed ? nullptr : config.if_object();
  const bool says =
      fields != nullptr && !(TextIn(*fields, "link") + TextIn(*fields, "set")).empty();
  if (!file && ::access((place + "/.forebay").c_str(), F_OK) != 0 && errno == ENOENT) {
    return std::unexpected(
        Failure(Error{Code::kInvalid,
                      fmt::format("{} is a mount of all links, and that is none of them", place)},
                fmt::format("name one of the directories in {}, or a link", place)));
  }
  if (!file || !says) {
    return std::unexpected(
        Failure(Error{Code::kUnavailable, fmt::format("the mount at {} does not say what it shows: "
                                                      "{} cannot be read",
                                                      place, path)},
                "give the target as NAME/sub/path", Exit::kFailed));
  }
  return *fields;
}

}  // namespace forebay

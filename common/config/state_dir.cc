#include "common/config/state_dir.h"

#include <unistd.h>

namespace forebay {
namespace {

std::string Variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace

std::string DefaultStateDir(const Environment& environment, std::string_view root_folder,
                            std::string_view user_folder) {
  if (::geteuid() == 0) return "/var/lib/forebay/" + std::string(root_folder);
  const std::string state_home = Variable(environment, "XDG_STATE_HOME");
  const std::string home = Variable(environment, "HOME");
  std::string state;
  if (state_home.starts_with('/')) {
    state = state_home + "/forebay";
  } else if (home.starts_with('/')) {
    state = home + "/.local/state/forebay";
  } else {
    return "";
  }
  return user_folder.empty() ? state : state + "/" + std::string(user_folder);
}

}  // namespace forebay

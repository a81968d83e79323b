#include "cli/user_name.h"

#include <pwd.h>
#include <unistd.h>

namespace forebay {

std::string UserName() {
  constexpr std::size_t kRoom = 16384;  // sysconf(_SC_GETPW_R_SIZE_MAX) says 1 KiB and may be low
  std::string room(kRoom, '\0');
  passwd entry{};
  passwd* found = nullptr;
  const int failed = getpwuid_r(geteuid(), &entry, room.data(), room.size(), &found);
  return failed == 0 && found != nullptr ? std::string(found->pw_name) : std::string();
}

}  // namespace forebay

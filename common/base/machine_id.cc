#include "common/base/machine_id.h"

#include <unistd.h>

#include <array>

#include "common/base/files.h"

namespace forebay {

std::string MachineId() {
  std::string id = ReadWholeFile("/etc/machine-id").value_or("");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

}  // namespace forebay

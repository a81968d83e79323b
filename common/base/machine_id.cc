#include "common/base/machine_id.h"

#include "common/base/files.h"

namespace forebay {

std::string MachineId() {
  std::string id = ReadWholeFile("/etc/machine-id").value_or("");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

}  // namespace forebay
